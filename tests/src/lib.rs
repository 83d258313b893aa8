//! Cross-crate tests; see the integration tests beside this file.
