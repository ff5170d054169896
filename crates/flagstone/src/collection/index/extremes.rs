//! The least and the greatest value of each type, by the entries of an index.

use super::scan::{IndexRange, Order, Reader, UsableIndex};
use crate::index::{Computed, component_len, decode_component};
use flagstone_base::Result;
use flagstone_doc::Value;
use flagstone_doc::sort_key::{Direction, type_ranges};

impl UsableIndex {
    /// Returns the least and the greatest value of each type but null in the first field; of a type
    /// with values that are too long for an entry maybe none. `None` if the entries do not tell:
    /// the field is computed, or a document had an array there.
    pub(crate) fn extremes(&self, reader: Reader<'_, '_>) -> Result<Option<Vec<Value>>> {
        let field = self.definition().and_then(|definition| definition.fields.first());
        let Some(field) = field.filter(|field| field.computed == Computed::Value) else {
            return Ok(None);
        };
        if !self.arrays(0).is_none() {
            return Ok(None);
        }
        let mut values = Vec::new();
        for (first, last) in type_ranges() {
            let range = match field.direction {
                Direction::Ascending => IndexRange::new(&[], &[first], Some(&[last + 1])),
                Direction::Descending => IndexRange::new(&[], &[!last], Some(&[!first + 1])),
            };
            for order in [Order::Forward, Order::Reverse] {
                let mut scan = self.scan(reader, &range, order)?;
                if !scan.advance()? {
                    break;
                }
                let bytes = scan.components();
                let refused = |malformed| scan.corrupt(malformed);
                let (len, is_cut) = component_len(bytes, field.direction).map_err(refused)?;
                if is_cut {
                    continue;
                }
                let value = decode_component(&bytes[..len], field.direction).map_err(refused)?;
                values.extend(value);
            }
        }
        Ok(Some(values))
    }
}
