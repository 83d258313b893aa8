//! Settings that a caller has for backends.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionValue {
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Str(Arc<str>),
}

impl OptionValue {
    /// The truth value, if this is one.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The whole number, if this is one.
    pub const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(value) => Some(value),
            _ => None,
        }
    }
}

impl From<bool> for OptionValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for OptionValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for OptionValue {
    fn from(value: &str) -> Self {
        Self::Str(value.into())
    }
}

/// Settings by backend id and name. A backend looks its own up when it makes a delegate; those of others it need not know.
///
/// ```
/// use et_kernel::BackendOptions;
///
/// let options = BackendOptions::new().with("MyBackend", "threads", 4);
/// assert_eq!(options.get("MyBackend", "threads").and_then(|value| value.as_int()), Some(4));
/// assert_eq!(options.get("OtherBackend", "threads"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendOptions(BTreeMap<String, BTreeMap<String, OptionValue>>);

impl BackendOptions {
    /// No settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a setting; a later value of the same name takes the place of the earlier one.
    #[must_use]
    pub fn with(mut self, backend: &str, key: &str, value: impl Into<OptionValue>) -> Self {
        let options = self.0.entry(backend.to_owned()).or_default();
        options.insert(key.to_owned(), value.into());
        self
    }

    /// A setting, if it was made.
    pub fn get(&self, backend: &str, key: &str) -> Option<&OptionValue> {
        self.0.get(backend)?.get(key)
    }

    /// All settings for a backend, by name.
    pub fn of(&self, backend: &str) -> impl Iterator<Item = (&str, &OptionValue)> {
        let options = self.0.get(backend).into_iter().flatten();
        options.map(|(key, value)| (key.as_str(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_opt_01_a_later_value_replaces_an_earlier_one_of_any_type() {
        let options = BackendOptions::new()
            .with("a", "key", 1)
            .with("a", "key", "text");
        let value = options.get("a", "key").unwrap();
        assert_eq!(
            (value.as_str(), value.as_int(), value.as_bool()),
            (Some("text"), None, None)
        );
        assert_eq!(options.of("a").count(), 1);
    }

    #[test]
    fn r_opt_02_an_unknown_backend_has_no_settings() {
        let options = BackendOptions::new().with("a", "on", true);
        assert_eq!(options.of("b").count(), 0);
        assert_eq!(options.get("a", "off"), None);
        assert_eq!(options.get("a", "on").unwrap().as_bool(), Some(true));
    }
}
