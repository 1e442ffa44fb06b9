//! `rag_types.vector`: an array of f32 with a fixed number of dimensions.
//!
//! Text form, binary form and in-memory layout are those of pgvector's `vector`, so that its client
//! libraries work and a cast between the two types copies nothing but bytes:
//!
//! ```text
//! | i32 varlena header | i16 dimensions | i16 zero | f32 x dimensions |
//! ```
//!
//! This folder holds the functions that `sql/vector.sql` declares: [`io`] text, binary and typmod;
//! [`cast`] arrays; [`distance`] the operators that order; [`arithmetic`] the others; [`bits`]
//! signs; [`aggregate`] sum and avg; [`pgvector`] what concerns pgvector's type beside this one.
#![allow(unsafe_code)] // the one place where a varlena becomes a slice of f32 and back

mod aggregate;
mod arithmetic;
mod bits;
mod cast;
mod distance;
mod io;
mod pgvector;

use std::{marker::PhantomData, ptr::NonNull};

use pgrx::{
    callconv::{Arg, ArgAbi, BoxRet, FcInfo},
    datum::{Datum, FromDatum, IntoDatum, UnboxDatum},
    nullable::Nullable,
    pg_sys,
    pgrx_sql_entity_graph::metadata::{
        ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
    },
};

use crate::error::Error;

/// Most dimensions of a vector, as in pgvector.
pub const MAX_DIMENSIONS: usize = 16_000;

/// What precedes the elements.
#[repr(C)]
struct Header {
    varlena: i32,
    dimensions: i16,
    unused: i16,
}

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 8 && align_of::<Header>() == 4);

/// A vector that Postgres passed in: valid for the duration of the call.
#[derive(Clone, Copy)]
pub struct Vector<'a> {
    header: NonNull<Header>,
    lifetime: PhantomData<&'a Header>,
}

impl<'a> Vector<'a> {
    /// # Safety
    /// `datum` is a non-null datum of type `rag_types.vector` (or of pgvector's `vector`) that
    /// outlives `'a`.
    pub unsafe fn from_raw(datum: pg_sys::Datum) -> Self {
        let varlena: *mut pg_sys::varlena = datum.cast_mut_ptr();
        // SAFETY: a varlena datum; the call to detoast, which crosses into C, is spared for the
        // usual plain one.
        let plain = unsafe {
            if pgrx::varlena::varatt_is_4b_u(varlena) {
                varlena
            } else {
                pg_sys::pg_detoast_datum(varlena)
            }
        };
        // SAFETY: pg_detoast_datum never returns null.
        let header = unsafe { NonNull::new_unchecked(plain.cast::<Header>()) };
        Self {
            header,
            lifetime: PhantomData,
        }
    }

    pub fn as_slice(&self) -> &'a [f32] {
        // SAFETY: every value of the type was made by `allocate`, which wrote as many elements as
        // the header says; values that came from outside went through `io`, which checked them.
        unsafe {
            let dimensions = self.header.as_ref().dimensions as usize;
            let elements = self
                .header
                .as_ptr()
                .cast::<u8>()
                .add(HEADER_BYTES)
                .cast::<f32>();
            std::slice::from_raw_parts(elements, dimensions)
        }
    }

    pub fn dimensions(&self) -> usize {
        self.as_slice().len()
    }
}

/// A vector to be returned to Postgres or passed to a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedVector(Vec<f32>);

impl OwnedVector {
    /// # Errors
    /// No elements, too many, or one that is not finite.
    pub fn new(elements: Vec<f32>) -> Result<Self, Error> {
        check_dimensions(elements.len())?;
        match elements.iter().find(|x| !x.is_finite()) {
            None => Ok(Self(elements)),
            Some(x) if x.is_nan() => Err(Error::data_exception("NaN not allowed in vector")),
            Some(_) => Err(Error::data_exception(
                "infinite value not allowed in vector",
            )),
        }
    }
}

/// # Errors
/// Fewer than one or more than [`MAX_DIMENSIONS`].
pub fn check_dimensions(dimensions: usize) -> Result<(), Error> {
    if dimensions == 0 {
        return Err(Error::data_exception(
            "vector must have at least 1 dimension",
        ));
    }
    if dimensions > MAX_DIMENSIONS {
        return Err(Error::limit(format!(
            "vector cannot have more than {MAX_DIMENSIONS} dimensions"
        )));
    }
    Ok(())
}

/// # Errors
/// The two differ in length.
pub fn check_same_dimensions(a: &Vector, b: &Vector) -> Result<(), Error> {
    if a.dimensions() == b.dimensions() {
        return Ok(());
    }
    Err(Error::data_exception(format!(
        "different vector dimensions {} and {}",
        a.dimensions(),
        b.dimensions()
    )))
}

impl IntoDatum for OwnedVector {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let bytes = HEADER_BYTES + size_of_val(self.0.as_slice());
        // SAFETY: palloc returns `bytes` bytes aligned for anything; header and elements fill them
        // exactly.
        unsafe {
            let header = pg_sys::palloc(bytes).cast::<Header>();
            header.write(Header {
                varlena: 0,
                dimensions: self.0.len() as i16,
                unused: 0,
            });
            pgrx::varlena::set_varsize_4b(header.cast(), bytes as i32);
            let elements = header.cast::<u8>().add(HEADER_BYTES).cast::<f32>();
            std::ptr::copy_nonoverlapping(self.0.as_ptr(), elements, self.0.len());
            Some(header.into())
        }
    }

    fn type_oid() -> pg_sys::Oid {
        crate::pg::extension::vector_type()
    }
}

impl FromDatum for OwnedVector {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _: pg_sys::Oid,
    ) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!is_null).then(|| Self(unsafe { Vector::from_raw(datum) }.as_slice().to_vec()))
    }
}

impl From<OwnedVector> for Vec<f32> {
    fn from(vector: OwnedVector) -> Self {
        vector.0
    }
}

// SAFETY: reads the argument as what `sql/vector.sql` declares it to be.
unsafe impl<'fcx> ArgAbi<'fcx> for Vector<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the functions are STRICT or take an Option, so that the datum is not null.
        unsafe { arg.unbox_arg_using_from_datum() }
            .unwrap_or_else(|| Error::internal("unexpected NULL vector").raise())
    }

    unsafe fn unbox_nullable_arg(arg: Arg<'_, 'fcx>) -> Nullable<Self> {
        // SAFETY: as above.
        unsafe { arg.unbox_arg_using_from_datum() }.into()
    }
}

impl FromDatum for Vector<'_> {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _: pg_sys::Oid,
    ) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!is_null).then(|| unsafe { Self::from_raw(datum) })
    }
}

// SAFETY: returns a datum of the declared type, allocated in the current memory context.
unsafe impl BoxRet for OwnedVector {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        match self.into_datum() {
            // SAFETY: the datum lives in the caller's memory context.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}

// SAFETY: an `OwnedVector` borrows nothing.
unsafe impl UnboxDatum for OwnedVector {
    type As<'src> = Self;

    unsafe fn unbox<'src>(datum: Datum<'src>) -> Self::As<'src>
    where
        Self: 'src,
    {
        // SAFETY: the caller's promise; arrays hold no nulls here.
        Self(
            unsafe { Vector::from_raw(datum.sans_lifetime()) }
                .as_slice()
                .to_vec(),
        )
    }
}

macro_rules! maps_to_rag_vector {
    ($type:ty) => {
        // SAFETY: the conversions above read and write exactly this SQL type.
        unsafe impl SqlTranslatable for $type {
            const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!($type);
            const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
            const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> =
                Ok(SqlMappingRef::literal("rag_types.vector"));
            const RETURN_SQL: Result<ReturnsRef, ReturnsError> =
                Ok(ReturnsRef::One(SqlMappingRef::literal("rag_types.vector")));
        }
    };
}
maps_to_rag_vector!(Vector<'_>);
maps_to_rag_vector!(OwnedVector);
