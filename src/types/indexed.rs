//! Values that an index has: vectors of any type, as elements in `f32`.
#![allow(unsafe_code)] // datums

use pgrx::pg_sys;
use rag_ann::half::{Half, widen};

use super::{
    bits::Bits,
    vector::{Elements, Vector, is_plain},
};
use crate::pg::{
    extension::{halfvec_type, vector_type},
    memory::OwnedContext,
};

/// A type whose values `rag_hnsw` indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexedType {
    /// `rag_types.vector`, or pgvector's type, which has the same layout.
    Vector,
    /// `rag_types.halfvec`, or pgvector's type, which has the same layout.
    Halfvec,
    /// `bit`: elements are 0 and 1.
    Bits,
}

impl IndexedType {
    /// Returns `None` for another type.
    pub fn of(id: pg_sys::Oid) -> Option<Self> {
        match id {
            pg_sys::TEXTOID => return None, // told apart without a look-up
            pg_sys::BITOID | pg_sys::VARBITOID => return Some(Self::Bits),
            _ => {}
        }
        // SAFETY: looks up a cast.
        let is = |own: pg_sys::Oid| id == own || unsafe { pg_sys::IsBinaryCoercible(id, own) };
        if is(vector_type()) {
            Some(Self::Vector)
        } else {
            is(halfvec_type()).then_some(Self::Halfvec)
        }
    }

    /// Returns the bytes that a value takes, without its header.
    pub fn bytes(self, dimensions: usize) -> usize {
        match self {
            Self::Vector => dimensions * size_of::<f32>(),
            Self::Halfvec => dimensions * size_of::<Half>(),
            Self::Bits => dimensions.div_ceil(8),
        }
    }
}

/// Memory for the plain copy of one value at a time that is stored compressed or out of line, or in
/// another form than `f32`.
pub struct DetoastMemory {
    context: OwnedContext,
    elements: Vec<f32>,
}

impl DetoastMemory {
    pub fn new() -> Self {
        Self {
            context: OwnedContext::new(c"rag detoasted vector"),
            elements: vec![],
        }
    }

    /// Calls `f` with the elements of a value.
    ///
    /// # Safety
    /// `datum` is a non-null datum of the type, valid during the call.
    #[inline]
    pub unsafe fn with_vector<R>(
        &mut self,
        datum: pg_sys::Datum,
        indexed: IndexedType,
        f: impl FnOnce(&[f32]) -> R,
    ) -> R {
        // SAFETY: the caller's promise. `f` cannot keep the slice, so that nothing refers to a
        // copy when it is freed.
        unsafe {
            match indexed {
                IndexedType::Vector if is_plain(datum) => {
                    return f(Vector::from_raw(datum).as_slice());
                }
                IndexedType::Halfvec if is_plain(datum) => {
                    widen(
                        Elements::<Half>::from_raw(datum).as_slice(),
                        &mut self.elements,
                    );
                    return f(&self.elements);
                }
                IndexedType::Vector => {
                    let vector = self.context.run(|| Vector::from_raw(datum));
                    let result = f(vector.as_slice());
                    self.context.reset();
                    return result;
                }
                IndexedType::Halfvec => {
                    let vector = self.context.run(|| Elements::<Half>::from_raw(datum));
                    widen(vector.as_slice(), &mut self.elements);
                }
                IndexedType::Bits => {
                    let bits = self.context.run(|| Bits::from_raw(datum));
                    bits.expand(&mut self.elements);
                }
            }
            self.context.reset();
            f(&self.elements)
        }
    }
}
