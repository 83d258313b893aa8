//! `cargo xtask operators`: the table of operators and element types in `docs/operators.md`, from what `et ops` says.

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;

const DOCUMENT: &str = "docs/operators.md";

/// Columns: what the head says, and the types that the column stands for.
const COLUMNS: [(&str, &[&str]); 14] = [
    ("bool", &["BOOL"]),
    ("u8", &["BYTE"]),
    ("i8", &["CHAR"]),
    ("i16", &["SHORT"]),
    ("i32", &["INT"]),
    ("i64", &["LONG"]),
    ("u16", &["UINT16"]),
    ("u32", &["UINT32"]),
    ("u64", &["UINT64"]),
    ("f16", &["HALF"]),
    ("bf16", &["BFLOAT16"]),
    ("f32", &["FLOAT"]),
    ("f64", &["DOUBLE"]),
    ("moved", OTHERS),
];

/// Types that nothing is computed in: quantised, of bits, of 8-bit floating point, complex.
const OTHERS: &[&str] = &[
    "QINT8",
    "QUINT8",
    "QINT32",
    "QUINT4X2",
    "QUINT2X4",
    "BITS1X8",
    "BITS2X4",
    "BITS4X2",
    "BITS8",
    "BITS16",
    "FLOAT8E5M2",
    "FLOAT8E4M3FN",
    "FLOAT8E5M2FNUZ",
    "FLOAT8E4M3FNUZ",
    "COMPLEXHALF",
    "COMPLEXFLOAT",
];

const HEAD: &str = "\
# Operators

What this build of `et` can run, and the element types that each operator computes with. `et ops` prints the same, and
`cargo xtask operators` writes this file from it; that every operator takes the types it declares, and refuses all
others, is tested (`operators_take_the_element_types_that_they_declare` in et-ops).

- The types are those of the operands that an operator computes with. Results may be of another type where PyTorch has it so:
  comparisons give truth values, `exp` of whole numbers gives `f32`, sums of whole numbers are `i64`. Operands of different
  types are promoted by PyTorch's rules, and an output may be of a wider type than the result.
- `f16` and `bf16` are computed in `f32`, and sums of floating point numbers in `f64`; only results are rounded.
- *moved* stands for all other types of up to 8 bytes (quantised, bits, 8-bit floating point, complex): operators that only move
  elements take them too.
- An operator without any type works on numbers of the program, or on a tensor's shape.
- *prepared* operators look at their arguments when a method is loaded, and keep something for each run.
- Tensors have up to 16 dimensions, and lists of whole numbers up to 32 entries without a heap block. After its first runs no
  operator takes memory from the heap, but for `repeat` of more than 8 dimensions and more than 8 index tensors at once.
- Where PyTorch and the C++ runtime differ, this is as in PyTorch: `sign` of what is no number is 0 (there it is no number). Where both
  refuse, so does this: negative indices of `gather`, `scatter`, `index_select` and `embedding` (`index` and `index_put` count them from
  the end, as both do).
";

/// Writes the table, or, with `check`, fails if it is not what the operators declare.
pub(crate) fn run(check: bool) -> Result<()> {
    let et = process::executable(&["-p", "et-cli", "--bin", "et"])?;
    let mut command = process::tool(&et.to_string_lossy());
    let listed = process::output(command.args(["ops", "--json"]))?;
    let text = document(&serde_json::from_str(&listed).context("`et ops --json` is not JSON")?)?;
    let path = workspace::root().join(DOCUMENT);
    if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    if check {
        bail!("{DOCUMENT} is not what `et ops` says (run `cargo xtask operators`)");
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    console::line(format_args!("wrote {DOCUMENT}"));
    Ok(())
}

/// The document for what `et ops --json` printed.
fn document(listed: &Value) -> Result<String> {
    let operators = listed["operators"]
        .as_array()
        .context("`et ops --json` lists no operators")?;
    let mut families: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for operator in operators {
        let name = full_name(operator)?;
        let family = name.split("::").next().unwrap_or_default().to_owned();
        families
            .entry(family)
            .or_default()
            .push(row(&name, operator)?);
    }
    let mut text = HEAD.to_owned();
    for (family, rows) in families {
        text += &format!("\n## {family}\n\n{}{}\n", table_head(), rows.join("\n"));
    }
    text += &format!("\n{} operators.\n", operators.len());
    Ok(text)
}

fn full_name(operator: &Value) -> Result<String> {
    let part = |field: &str| {
        operator[field]
            .as_str()
            .with_context(|| format!("an operator without `{field}`"))
    };
    let (name, overload) = (part("name")?, part("overload")?);
    Ok(match overload {
        "" => name.to_owned(),
        overload => format!("{name}.{overload}"),
    })
}

fn table_head() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let line = COLUMNS.map(|_| ":-:").join(" | ");
    format!(
        "| operator | {} | |\n| --- | {line} | --- |\n",
        names.join(" | ")
    )
}

fn row(name: &str, operator: &Value) -> Result<String> {
    let types = operator["dtypes"]
        .as_array()
        .with_context(|| format!("{name} without `dtypes`"))?;
    let types: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
    let mut known = 0;
    let mut cells = Vec::new();
    for (column, of) in COLUMNS {
        let taken = types.iter().filter(|name| of.contains(name)).count();
        known += taken;
        // A column of several types must be one thing.
        cells.push(match taken {
            0 => "",
            n if n == of.len() => "x",
            n => bail!(
                "{name} takes {n} of the {} types of column {column}",
                of.len()
            ),
        });
    }
    // One more type that has no column: an operator that takes even that one takes everything.
    let rest = match types.len() - known {
        0 => "",
        1 if types.contains(&"COMPLEXDOUBLE") => "everything",
        _ => bail!("{name} takes a type that no column has: {types:?}"),
    };
    let prepared = if operator["prepares_state"] == true {
        "prepared"
    } else {
        ""
    };
    let notes = [rest, prepared].join(" ");
    let row = format!("| `{name}` | {} | {} |", cells.join(" | "), notes.trim());
    Ok(row.replace("|  |", "| |").replace("|  |", "| |"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listed(dtypes: &[&str]) -> Value {
        json!({ "operators": [
            { "name": "aten::add", "overload": "out", "dtypes": dtypes, "prepares_state": true }
        ] })
    }

    #[test]
    fn an_operator_has_a_row_with_its_types() {
        let text = document(&listed(&["FLOAT", "BOOL"])).unwrap();
        let row = "| `aten::add.out` | x | | | | | | | | | | | x | | | prepared |";
        assert!(text.contains("## aten\n"), "{text}");
        assert!(text.lines().any(|line| line == row), "{text}");
        assert!(text.ends_with("\n1 operators.\n"), "{text}");
    }

    #[test]
    fn a_type_without_a_column_is_an_error() {
        assert!(document(&listed(&["FLOAT", "SOMETHING"])).is_err());
    }

    #[test]
    fn a_part_of_the_moved_types_is_an_error() {
        assert!(document(&listed(&["QINT8"])).is_err());
    }
}
