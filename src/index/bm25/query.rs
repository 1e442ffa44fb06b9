//! The type `rag.bm25_query`: the words to search for, and the index that has their
//! statistics. It is a composite type of a text and a regclass.
#![allow(unsafe_code)] // datums

use pgrx::{
    callconv::{Arg, ArgAbi, BoxRet, FcInfo},
    datum::{Datum, FromDatum, IntoDatum},
    nullable::Nullable,
    pg_extern, pg_sys,
    pgrx_sql_entity_graph::metadata::{
        ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
    },
};

use crate::{
    error::Error,
    index::am::relation::{Value, ValueType},
    pg::extension::bm25_query_type,
};

/// A query of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bm25Query {
    /// `None`, for NULL, matches nothing.
    pub text: Option<Vec<u8>>,
    pub index: pg_sys::Oid,
}

/// A text as an argument, where it is stored: it is read when it is needed.
pub struct TextArgument<'a>(pub Value<'a>);

impl FromDatum for TextArgument<'_> {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _: pg_sys::Oid,
    ) -> Option<Self> {
        // SAFETY: the caller's promise: a text.
        let value = || unsafe { Value::from_raw(datum, ValueType::Other(pg_sys::TEXTOID)) };
        (!is_null).then(|| Self(value()))
    }
}

// SAFETY: reads the argument as what `sql/bm25.sql` declares it to be.
unsafe impl<'fcx> ArgAbi<'fcx> for TextArgument<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the functions are STRICT, so that the datum is not null.
        unsafe { arg.unbox_arg_using_from_datum() }
            .unwrap_or_else(|| Error::internal("unexpected NULL text").raise())
    }
}

/// Returns the OID of the type `rag.bm25_query`.
pub fn query_type() -> pg_sys::Oid {
    bm25_query_type()
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn bm25_query(text: &str, index: pg_sys::Oid) -> Bm25Query {
    Bm25Query {
        text: Some(text.as_bytes().to_vec()),
        index,
    }
}

impl FromDatum for Bm25Query {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _: pg_sys::Oid,
    ) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller's promise: a row of the type, whose columns are a text and a regclass.
        unsafe {
            let row = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast();
            let column = |number| {
                let mut is_null = false;
                let value = pg_sys::GetAttributeByNum(row, number, &mut is_null);
                (!is_null).then_some(value)
            };
            let text = column(1).map(|text| {
                let plain = pg_sys::pg_detoast_datum_packed(text.cast_mut_ptr());
                pgrx::varlena::varlena_to_byte_slice(plain).to_vec()
            });
            let index = match column(2) {
                Some(index) => pg_sys::Oid::from_u32(index.value() as u32),
                None => Error::null_not_allowed("the index of a query must not be NULL").raise(),
            };
            Some(Self { text, index })
        }
    }
}

impl IntoDatum for Bm25Query {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        // SAFETY: values of the types of the two columns.
        unsafe {
            let row_type = pg_sys::lookup_rowtype_tupdesc_copy(query_type(), -1);
            let no_text = self.text.is_none();
            let text = self.text.and_then(|text| text.as_slice().into_datum());
            let mut values = [
                text.unwrap_or(pg_sys::Datum::null()),
                pg_sys::Datum::from(self.index),
            ];
            let mut nulls = [no_text, false];
            let row = pg_sys::heap_form_tuple(row_type, values.as_mut_ptr(), nulls.as_mut_ptr());
            Some(pg_sys::heap_copy_tuple_as_datum(row, row_type))
        }
    }

    fn type_oid() -> pg_sys::Oid {
        query_type()
    }
}

// SAFETY: reads the argument as what `sql/bm25.sql` declares it to be.
unsafe impl<'fcx> ArgAbi<'fcx> for Bm25Query {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the functions are STRICT, so that the datum is not null.
        unsafe { arg.unbox_arg_using_from_datum() }
            .unwrap_or_else(|| Error::internal("unexpected NULL query").raise())
    }

    unsafe fn unbox_nullable_arg(arg: Arg<'_, 'fcx>) -> Nullable<Self> {
        // SAFETY: as above.
        unsafe { arg.unbox_arg_using_from_datum() }.into()
    }
}

// SAFETY: returns a datum of the declared type, allocated in the current memory context.
unsafe impl BoxRet for Bm25Query {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        match self.into_datum() {
            // SAFETY: the datum lives in the caller's memory context.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}

macro_rules! maps_to_sql_type {
    ($type:ty, $sql:literal) => {
        // SAFETY: the conversions above read and write exactly this SQL type.
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
maps_to_sql_type!(Bm25Query, "rag.bm25_query");
maps_to_sql_type!(TextArgument<'_>, "text");
