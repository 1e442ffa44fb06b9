//! `jsonb` arguments that strangers write.
#![allow(unsafe_code)] // an argument of a function

use std::ffi::CStr;

use pgrx::{
    FromDatum,
    callconv::{Arg, ArgAbi},
    direct_function_call,
    nullable::Nullable,
    pg_sys,
    pgrx_sql_entity_graph::metadata::{
        ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
    },
};
use serde_json::Value;

use crate::error::Error;

/// A `jsonb` argument that is not parsed yet. PostgreSQL accepts numbers that no `f64` can hold,
/// and any depth. A [`pgrx::JsonB`] of these is an internal error before the function begins.
pub struct JsonbText(Vec<u8>);

impl JsonbText {
    /// Returns the value as a text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// # Errors
    /// A number is too large, or the value is nested too deeply.
    pub fn parse(&self) -> serde_json::Result<Value> {
        serde_json::from_slice(&self.0)
    }
}

impl FromDatum for JsonbText {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _: pg_sys::Oid,
    ) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller's promise that the datum is a jsonb. The function copies what it needs
        // from a datum that is stored out of line, and returns a text that ends with NUL.
        let text = unsafe { direct_function_call::<&CStr>(pg_sys::jsonb_out, &[Some(datum)]) };
        text.map(|text| Self(text.to_bytes().to_vec()))
    }
}

// SAFETY: reads the argument as what `sql/retrieval.sql` declares it to be.
unsafe impl<'fcx> ArgAbi<'fcx> for JsonbText {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the functions take an Option, so that the datum is not null.
        unsafe { arg.unbox_arg_using_from_datum() }
            .unwrap_or_else(|| Error::internal("unexpected NULL jsonb").raise())
    }

    unsafe fn unbox_nullable_arg(arg: Arg<'_, 'fcx>) -> Nullable<Self> {
        // SAFETY: as above.
        unsafe { arg.unbox_arg_using_from_datum() }.into()
    }
}

// SAFETY: the conversion above reads this SQL type.
unsafe impl SqlTranslatable for JsonbText {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(JsonbText);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("jsonb"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> =
        Ok(ReturnsRef::One(SqlMappingRef::literal("jsonb")));
}
