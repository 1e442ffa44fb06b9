//! Vectors as PostgreSQL stores and passes them.
//!
//! All code of the type that touches raw memory is in this file. The rest of the folder sees
//! slices.
#![allow(unsafe_code)] // datums

use std::{ffi::c_char, marker::PhantomData, ptr::NonNull};

use pgrx::{
    Spi,
    callconv::{Arg, ArgAbi, BoxRet, FcInfo},
    datum::{Array, Datum, FromDatum, IntoDatum, UnboxDatum},
    nullable::Nullable,
    pg_sys,
    pgrx_sql_entity_graph::metadata::{
        ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
    },
};

use rag_ann::half::Half;

use super::{OwnedElements, OwnedVector, VectorElement};
use crate::{
    error::Error,
    pg::{extension::vector_type, spi::Rights},
    types::indexed::{DetoastMemory, IndexedType},
};

/// What precedes the elements of a vector.
#[repr(C)]
struct Header {
    varlena: i32,
    dimensions: i16,
    unused: i16,
}

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 8 && align_of::<Header>() == 4);

/// A vector of an element type that PostgreSQL passed in. It is valid for the duration of the call.
#[derive(Clone, Copy)]
pub struct Elements<'a, E> {
    header: NonNull<Header>,
    lifetime: PhantomData<&'a E>,
}

/// A `rag_types.vector`, or one of pgvector's type.
pub type Vector<'a> = Elements<'a, f32>;

impl<'a, E: VectorElement> Elements<'a, E> {
    /// # Safety
    /// `datum` is a non-null datum of the type of vectors with such elements, or of pgvector's. It
    /// outlives `'a`, and so does the current memory context.
    pub unsafe fn from_raw(datum: pg_sys::Datum) -> Self {
        // SAFETY: the caller's promise. The call to pg_detoast_datum, which crosses into C, is
        // avoided for the usual plain datum.
        unsafe {
            if is_plain(datum) {
                Self::from_plain(datum.cast_mut_ptr())
            } else {
                Self::from_plain(pg_sys::pg_detoast_datum(datum.cast_mut_ptr()))
            }
        }
    }

    /// # Safety
    /// That of [`from_raw`](Self::from_raw), and the datum is neither compressed nor stored out of
    /// line.
    #[inline]
    unsafe fn from_plain(varlena: *mut pg_sys::varlena) -> Self {
        Self {
            // SAFETY: the caller's promise.
            header: unsafe { NonNull::new_unchecked(varlena.cast()) },
            lifetime: PhantomData,
        }
    }

    #[inline]
    pub fn as_slice(&self) -> &'a [E] {
        // SAFETY: `OwnedElements::into_datum` writes all values of the type, and as many elements
        // as the header says.
        unsafe {
            let dimensions = self.header.as_ref().dimensions as usize;
            let elements = self.header.as_ptr().cast::<u8>().add(HEADER_BYTES);
            std::slice::from_raw_parts(elements.cast::<E>(), dimensions)
        }
    }

    pub fn dimensions(&self) -> usize {
        self.as_slice().len()
    }
}

/// Returns true if a varlena datum is neither compressed nor stored out of line, with a header of
/// four bytes.
///
/// # Safety
/// `datum` is a non-null datum of a varlena type.
#[inline]
pub unsafe fn is_plain(datum: pg_sys::Datum) -> bool {
    // SAFETY: the caller's promise.
    unsafe { pgrx::varlena::varatt_is_4b_u(datum.cast_mut_ptr()) }
}

/// Runs a query and calls `f` with each vector of its only column that is not NULL. The result is
/// read in portions, so that it needs little memory.
///
/// # Errors
/// The column is of another type, or the query fails.
pub fn for_each_vector(
    rights: &Rights,
    query: &str,
    mut f: impl FnMut(&[f32]),
) -> Result<(), Error> {
    /// Rows that are read at a time.
    const PORTION: i64 = 1000;
    rights.check()?;
    Spi::connect(|client| {
        let mut memory = DetoastMemory::new();
        let mut cursor = client.try_open_cursor(query, &[])?;
        while !cursor.fetch(PORTION as _)?.is_empty() {
            // SAFETY: the portion that was just fetched. It is freed here: otherwise all portions
            // would stay in memory until the end.
            unsafe {
                let (table, count) = (pg_sys::SPI_tuptable, pg_sys::SPI_processed as usize);
                let row_type = (*table).tupdesc;
                if pg_sys::SPI_gettypeid(row_type, 1) != vector_type() {
                    return Err(Error::internal("the query does not select vectors"));
                }
                for i in 0..count {
                    let mut is_null = false;
                    let row = *(*table).vals.add(i);
                    let vector = pg_sys::SPI_getbinval(row, row_type, 1, &mut is_null);
                    if !is_null {
                        memory.with_vector(vector, IndexedType::Vector, &mut f);
                    }
                }
                pg_sys::SPI_freetuptable(table);
            }
        }
        Ok::<_, Error>(())
    })
}

impl<E: VectorElement> IntoDatum for OwnedElements<E> {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        (&self).into_datum()
    }

    fn type_oid() -> pg_sys::Oid {
        E::type_oid()
    }
}

impl<E: VectorElement> IntoDatum for &OwnedElements<E> {
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
            let elements = header.cast::<u8>().add(HEADER_BYTES).cast::<E>();
            std::ptr::copy_nonoverlapping(self.0.as_ptr(), elements, self.0.len());
            Some(header.into())
        }
    }

    fn type_oid() -> pg_sys::Oid {
        E::type_oid()
    }
}

impl<E: VectorElement> FromDatum for OwnedElements<E> {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _: pg_sys::Oid,
    ) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!is_null).then(|| Self(unsafe { Elements::from_raw(datum) }.as_slice().to_vec()))
    }
}

// SAFETY: reads the argument as what the SQL declares it to be.
unsafe impl<'fcx, E: VectorElement> ArgAbi<'fcx> for Elements<'fcx, E> {
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

impl<E: VectorElement> FromDatum for Elements<'_, E> {
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
unsafe impl<E: VectorElement> BoxRet for OwnedElements<E> {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        match self.into_datum() {
            // SAFETY: the datum lives in the caller's memory context.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}

// SAFETY: it borrows nothing.
unsafe impl<E: VectorElement> UnboxDatum for OwnedElements<E> {
    type As<'src> = Self;

    unsafe fn unbox<'src>(datum: Datum<'src>) -> Self::As<'src>
    where
        Self: 'src,
    {
        // SAFETY: the caller's promise; arrays hold no nulls here.
        let vector = unsafe { Elements::from_raw(datum.sans_lifetime()) };
        Self(vector.as_slice().to_vec())
    }
}

/// The message that a receive function reads.
pub struct Message<'a> {
    buffer: NonNull<pg_sys::StringInfoData>,
    lifetime: PhantomData<&'a mut pg_sys::StringInfoData>,
}

impl Message<'_> {
    /// Reads an integer of two bytes. Raises an ERROR at the end of the message.
    pub fn read_i16(&mut self) -> i16 {
        // SAFETY: the message of the call; the function checks its bounds.
        unsafe { pg_sys::pq_getmsgint(self.buffer.as_ptr(), 2) as i16 }
    }

    /// Reads a float of four bytes. Raises an ERROR at the end of the message.
    pub fn read_f32(&mut self) -> f32 {
        // SAFETY: as above.
        unsafe { pg_sys::pq_getmsgfloat4(self.buffer.as_ptr()) }
    }
}

impl FromDatum for Message<'_> {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _: pg_sys::Oid,
    ) -> Option<Self> {
        let buffer = NonNull::new(datum.cast_mut_ptr()).filter(|_| !is_null)?;
        Some(Self {
            buffer,
            lifetime: PhantomData,
        })
    }
}

// SAFETY: `internal` in the declaration of a receive function is a StringInfo.
unsafe impl<'fcx> ArgAbi<'fcx> for Message<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the function is STRICT.
        unsafe { arg.unbox_arg_using_from_datum() }
            .unwrap_or_else(|| Error::internal("there is no message to receive").raise())
    }
}

/// Declares which SQL type a type of arguments or results has.
macro_rules! maps_to_sql_type {
    ($type:ty, $sql:literal) => {
        // SAFETY: the conversions of the type read and write exactly this SQL type.
        unsafe impl SqlTranslatable for $type {
            const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!($type);
            const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
            const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> =
                Ok(SqlMappingRef::literal($sql));
            const RETURN_SQL: Result<ReturnsRef, ReturnsError> =
                Ok(ReturnsRef::One(SqlMappingRef::literal($sql)));
        }
    };
}
pub(in crate::types) use maps_to_sql_type;
maps_to_sql_type!(Vector<'_>, "rag_types.vector");
maps_to_sql_type!(OwnedVector, "rag_types.vector");
maps_to_sql_type!(Elements<'_, Half>, "rag_types.halfvec");
maps_to_sql_type!(OwnedElements<Half>, "rag_types.halfvec");
maps_to_sql_type!(Message<'_>, "internal");

/// Returns the number of dimensions of an array, 0 if it is empty.
pub fn array_dimensions<T: UnboxDatum>(array: Array<'_, T>) -> i32 {
    // SAFETY: the array that the function was called with.
    unsafe { (*array.into_array_type()).ndim }
}

/// Appends the shortest text that reads back as `x`, in PostgreSQL's notation for `real`.
pub fn append_float(text: &mut Vec<u8>, x: f32) {
    unsafe extern "C" {
        /// pgrx has no binding for it.
        fn float_to_shortest_decimal_bufn(x: f32, result: *mut c_char) -> std::ffi::c_int;
    }
    let mut buffer = [0u8; 32];
    // SAFETY: the buffer is longer than FLOAT_SHORTEST_DECIMAL_LEN (16).
    let written = unsafe { float_to_shortest_decimal_bufn(x, buffer.as_mut_ptr().cast()) };
    text.extend_from_slice(&buffer[..written as usize]);
}

/// Makes a cast depend on an extension as `ALTER ... DEPENDS ON EXTENSION` does for other objects:
/// DROP EXTENSION drops the cast, too.
pub fn make_cast_depend_on_extension(cast: pg_sys::Oid, extension: pg_sys::Oid) {
    /// `pg_cast`, whose header pgrx leaves out.
    const CAST_RELATION: pg_sys::Oid = pg_sys::Oid::from_u32(2605);
    let address = |class, object| pg_sys::ObjectAddress {
        classId: class,
        objectId: object,
        objectSubId: 0,
    };
    let cast = address(CAST_RELATION, cast);
    // SAFETY: writes a row of pg_depend; both addresses live during the call.
    unsafe {
        let extension = address(pg_sys::ExtensionRelationId, extension);
        let behavior = pg_sys::DependencyType::DEPENDENCY_AUTO_EXTENSION;
        pg_sys::recordDependencyOn(&cast, &extension, behavior);
    }
}
