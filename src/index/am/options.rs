//! Options of an index: `WITH (name = value, ...)`.

use std::{ffi::CStr, sync::OnceLock};

use pgrx::pg_sys::relopt_kind;

/// An option of an index.
pub struct IndexOption {
    pub name: &'static CStr,
    pub description: &'static CStr,
    pub values: OptionType,
}

/// The type of an option, its default, and the values that it allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptionType {
    Boolean {
        default: bool,
    },
    Integer {
        default: i32,
        min: i32,
        max: i32,
    },
    Real {
        default: f64,
        min: f64,
        max: f64,
    },
    /// The default is no text.
    Text,
}

/// The options of an access method.
pub struct OptionSet {
    pub options: &'static [IndexOption],
    /// What PostgreSQL knows the set by, once it is [registered](super::callbacks::register).
    pub(super) kind: OnceLock<relopt_kind::Type>,
}

impl OptionSet {
    pub const fn new(options: &'static [IndexOption]) -> Self {
        Self {
            options,
            kind: OnceLock::new(),
        }
    }
}

/// The values of an index's options, in the order of their [`OptionSet`].
///
/// PostgreSQL keeps them as a varlena: the header, then [`SLOT_BYTES`] for each option, then the
/// texts. The slot of a text has its offset from the start, or 0 if there is none.
#[derive(Debug, Clone, Default)]
pub struct OptionValues(Vec<u8>);

/// Bytes of an option, and of the header before the first.
pub const SLOT_BYTES: usize = 8;

/// Returns where the slot of an option begins.
pub const fn slot_offset(number: usize) -> usize {
    (1 + number) * SLOT_BYTES
}

impl OptionValues {
    pub(super) fn new(varlena: &[u8]) -> Self {
        Self(varlena.to_vec())
    }

    fn slot<const N: usize>(&self, number: usize) -> Option<[u8; N]> {
        self.0.get(slot_offset(number)..)?.first_chunk().copied()
    }

    /// Returns the value of an option that is on or off.
    pub fn boolean(&self, number: usize) -> Option<bool> {
        self.slot::<1>(number).map(|[byte]| byte != 0)
    }

    /// Returns the value of an option that is an integer.
    pub fn integer(&self, number: usize) -> Option<i32> {
        self.slot(number).map(i32::from_ne_bytes)
    }

    /// Returns the value of an option that is a real number.
    pub fn real(&self, number: usize) -> Option<f64> {
        self.slot(number).map(f64::from_ne_bytes)
    }

    /// Returns the value of an option that is a text.
    pub fn text(&self, number: usize) -> Option<&CStr> {
        let offset = self.integer(number).filter(|offset| *offset > 0)?;
        CStr::from_bytes_until_nul(self.0.get(offset as usize..)?).ok()
    }
}
