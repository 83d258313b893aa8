//! `et ops`: the operators of this build.

use crate::failure::{Blame, Failure};
use crate::report::Report;
use et_kernel::{Kernel, KernelRegistry, ScalarType};
use serde_json::{Value as Json, json};

/// Lists the kernels of all linked crates.
pub(crate) fn run() -> Result<Report, Failure> {
    let kernels = KernelRegistry::linked().map_err(|error| {
        Failure::new(Blame::Environment, "duplicate-operator", error.to_string())
    })?;
    let rows: Vec<Row> = kernels
        .iter()
        .map(|(kernel, origin)| Row::of(kernel, origin))
        .collect();
    let mut report = Report::text(text(&rows));
    report.set(
        "operators",
        rows.iter().map(Row::to_json).collect::<Vec<_>>(),
    );
    Ok(report)
}

/// One operator.
struct Row {
    name: String,
    overload: String,
    dtypes: Vec<&'static str>,
    prepares: bool,
    origin: &'static str,
}

impl Row {
    fn of(kernel: &Kernel, origin: &'static str) -> Self {
        let (name, overload) = kernel.name().split_once('.').unwrap_or((kernel.name(), ""));
        Self {
            name: name.into(),
            overload: overload.into(),
            dtypes: kernel.dtypes().iter().map(schema_name).collect(),
            prepares: kernel.prepare().is_some(),
            origin,
        }
    }

    fn to_json(&self) -> Json {
        json!({
            "name": self.name,
            "overload": self.overload,
            "dtypes": self.dtypes,
            "prepares_state": self.prepares,
            "crate": self.origin,
        })
    }
}

/// The name of an element type in the schema, as all our documents have it.
fn schema_name(dtype: ScalarType) -> &'static str {
    et_schema::ScalarType::from_code(dtype.as_raw()).map_or(dtype.name(), |known| known.name())
}

/// A table of all operators: unlike those of `inspect` it is never cut.
fn text(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|row| row.name.len() + row.overload.len() + 1)
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let name = crate::survey::operator_name(&row.name, &row.overload);
        let dtypes = row.dtypes.join(" ");
        let prepares = if row.prepares {
            "  (prepares state)"
        } else {
            ""
        };
        text.push_str(&format!("{name:width$}  {dtypes}{prepares}\n"));
    }
    text.push_str(&format!(
        "{}\n",
        crate::render::count(rows.len() as u64, "operator")
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use et_kernel::ScalarTypeSet;

    #[test]
    fn an_operator_is_split_into_name_and_overload() {
        let kernel = Kernel::new("aten::add.out", ScalarTypeSet::FLOATING, |_| Ok(()));
        let row = Row::of(&kernel, "et-ops");
        assert_eq!(
            (row.name.as_str(), row.overload.as_str()),
            ("aten::add", "out")
        );
        let expected = "aten::add.out  HALF FLOAT DOUBLE BFLOAT16\n1 operator\n";
        assert_eq!(text(&[row]), expected);
    }
}
