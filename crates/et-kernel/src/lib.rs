//! What an operator or a delegate is written against: tensors, values, contexts, registries
