//! What vectors are made of.

use pgrx::pg_sys;
use rag_ann::{distance::Element, half::Half};

use super::datum::Message;
use crate::pg::extension::{halfvec_type, vector_type};

/// An element of a vector of one of the types.
pub trait VectorElement: Element + Default + PartialEq + std::fmt::Debug + 'static {
    /// The name of the type, as messages have it.
    const TYPE: &'static str;

    fn type_oid() -> pg_sys::Oid;

    /// Returns the nearest element, which is infinite if there is none.
    fn nearest(x: f32) -> Self;

    /// Reads an element of the binary form. Raises an ERROR at the end of the message.
    fn read(message: &mut Message<'_>) -> Self;

    /// Appends the binary form.
    fn append(self, bytes: &mut Vec<u8>);
}

impl VectorElement for f32 {
    const TYPE: &'static str = "vector";

    fn type_oid() -> pg_sys::Oid {
        vector_type()
    }

    #[inline]
    fn nearest(x: f32) -> Self {
        x
    }

    fn read(message: &mut Message<'_>) -> Self {
        message.read_f32()
    }

    fn append(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_be_bytes());
    }
}

impl VectorElement for Half {
    const TYPE: &'static str = "halfvec";

    fn type_oid() -> pg_sys::Oid {
        halfvec_type()
    }

    #[inline]
    fn nearest(x: f32) -> Self {
        Self::from_f32(x)
    }

    fn read(message: &mut Message<'_>) -> Self {
        Self::from_bits(message.read_i16() as u16)
    }

    fn append(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_bits().to_be_bytes());
    }
}
