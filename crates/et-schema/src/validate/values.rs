//! Values of a method, and lists that name other values.

use super::Check;
use super::plan::Plan;
use super::sink::{Path, Sink};
use crate::generated::pte;
use crate::list::List;
use crate::problem::Rule;
use crate::view::{ValueKind, ValueView, tables};

impl<S: Sink> Check<'_, S> {
    pub(super) fn values(&mut self, plan: &Plan<'_>, path: &Path<'_>) -> Result<(), S::Stop> {
        let list = path.dot("values");
        for (index, table) in tables(plan.view.table().values()).enumerate() {
            self.value(plan, index, table, &list.at(index))?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        plan: &Plan<'_>,
        index: usize,
        table: pte::EValue<'_>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let value = ValueView::new(table);
        self.newer(&table._tab, 2, path)?;
        let path = path.dot(value.kind().name());
        if let Some(known) = known_fields(value.kind())
            && let Some(contents) = table.val()
        {
            self.newer(&contents, known, &path)?;
        }
        match value {
            ValueView::None | ValueView::Int(_) | ValueView::Bool(_) | ValueView::Double(_) => {
                Ok(())
            }
            ValueView::Tensor(tensor) => self.tensor(plan, index, tensor, &path),
            ValueView::Str(_) => {
                let there = table
                    .val_as_string()
                    .is_some_and(|text| text.string_val().is_some());
                self.items(there, &path.dot("string_val"))
            }
            ValueView::DoubleList(_) => {
                let there = table
                    .val_as_double_list()
                    .is_some_and(|list| list.items().is_some());
                self.items(there, &path.dot("items"))
            }
            ValueView::BoolList(_) => {
                let there = table
                    .val_as_bool_list()
                    .is_some_and(|list| list.items().is_some());
                self.items(there, &path.dot("items"))
            }
            ValueView::IntList(items) => {
                let there = table
                    .val_as_int_list()
                    .is_some_and(|list| list.items().is_some());
                self.items(there, &path.dot("items"))?;
                self.references(plan, items, &[ValueKind::Int], false, &path.dot("items"))
            }
            ValueView::TensorList(items) => {
                let there = table
                    .val_as_tensor_list()
                    .is_some_and(|list| list.items().is_some());
                self.items(there, &path.dot("items"))?;
                self.references(plan, items, &[ValueKind::Tensor], false, &path.dot("items"))
            }
            ValueView::OptionalTensorList(items) => {
                let there = table
                    .val_as_optional_tensor_list()
                    .is_some_and(|list| list.items().is_some());
                self.items(there, &path.dot("items"))?;
                let kinds = [ValueKind::Tensor, ValueKind::None];
                self.references(plan, items, &kinds, true, &path.dot("items"))
            }
            ValueView::Unknown(tag) => {
                self.error(Rule::UnknownCode, &path, tag, "a kind of value, 1 to 11")
            }
        }
    }

    fn items(&mut self, there: bool, path: &Path<'_>) -> Result<(), S::Stop> {
        if there {
            Ok(())
        } else {
            self.missing(path, "the value's contents")
        }
    }

    /// A list of value indices, all of the given kinds.
    fn references<T: crate::list::Item + Into<i64>>(
        &mut self,
        plan: &Plan<'_>,
        items: List<'_, T>,
        kinds: &[ValueKind],
        or_none: bool,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        for (position, item) in items.iter().enumerate() {
            let item: i64 = item.into();
            if or_none && item == -1 {
                continue;
            }
            let path = path.at(position);
            if !self.index(&path, item, plan.num_values, "values")? {
                continue;
            }
            let index = u32::try_from(item).unwrap_or(u32::MAX);
            let kind = plan.view.value_kind(index).unwrap_or(ValueKind::Unknown);
            if !kinds.contains(&kind) {
                let found = format_args!("{item}, a value of kind {}", kind.name());
                let expected = kinds.first().map_or("", |kind| kind.name());
                self.error(Rule::Kind, &path, found, format_args!("a {expected} value"))?;
            }
        }
        Ok(())
    }
}

/// How many fields the table of such a value has. Structural verification does not look into unions
/// of unknown type, so those must not be touched.
fn known_fields(kind: ValueKind) -> Option<usize> {
    match kind {
        ValueKind::None => Some(0),
        ValueKind::Tensor => Some(10),
        ValueKind::Unknown => None,
        _ => Some(1),
    }
}
