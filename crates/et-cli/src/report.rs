//! What a command has to say: a text for people, fields of a document for programs.

use serde_json::{Map, Value};

/// The result of a command in both forms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// For people.
    pub(crate) text: String,
    /// For programs: the fields of the JSON document.
    pub(crate) fields: Map<String, Value>,
}

impl Report {
    /// A text alone.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            fields: Map::new(),
        }
    }

    /// Adds a field to the document.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.fields.insert(key.to_owned(), value.into());
    }

    /// The whole document: format and version, the fields, and the error of a failure.
    pub(crate) fn document(self, format: &str, error: Option<Value>) -> String {
        let mut document = Map::new();
        document.insert("format".into(), format.into());
        document.insert("version".into(), 1.into());
        document.extend(self.fields);
        if let Some(error) = error {
            document.insert("error".into(), error);
        }
        pretty(&document.into())
    }
}

/// A JSON document with a newline behind it.
pub(crate) fn pretty(document: &Value) -> String {
    let text = serde_json::to_string_pretty(document);
    text.expect("invariant: a JSON value has string keys only") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_name_their_format_and_error() {
        let mut report = Report::text("x");
        report.set("files", 2);
        let text = report.document("et-verify", Some("bad".into()));
        let document: Value = serde_json::from_str(&text).unwrap();
        let expected =
            serde_json::json!({"format": "et-verify", "version": 1, "files": 2, "error": "bad"});
        assert_eq!(document, expected);
    }
}
