//! The signs of a vector's elements as a bit string.
#![allow(unsafe_code)] // writes a datum

use pgrx::{
    callconv::{BoxRet, FcInfo},
    datum::Datum,
    pg_extern, pg_sys,
    pgrx_sql_entity_graph::metadata::{
        ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
    },
};

use super::Vector;

/// What precedes the bits: the varlena header and their number, an i32 each (`VarBit` in
/// utils/varbit.h).
const HEADER_BYTES: usize = 8;

/// A value of type `bit`: the first bit is the highest of the first byte.
struct Bits {
    length: usize,
    bytes: Vec<u8>,
}

// SAFETY: returns a datum of the declared type, allocated in the current memory context.
unsafe impl BoxRet for Bits {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        let bytes = HEADER_BYTES + self.bytes.len();
        // SAFETY: palloc returns `bytes` bytes aligned for anything; header and bits fill them.
        unsafe {
            let datum = pg_sys::palloc(bytes);
            pgrx::varlena::set_varsize_4b(datum.cast(), bytes as i32);
            datum.cast::<i32>().add(1).write(self.length as i32);
            let bits = datum.cast::<u8>().add(HEADER_BYTES);
            std::ptr::copy_nonoverlapping(self.bytes.as_ptr(), bits, self.bytes.len());
            fcinfo.return_raw_datum(datum.into())
        }
    }
}

// SAFETY: `box_into` writes exactly this SQL type.
unsafe impl SqlTranslatable for Bits {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(Bits);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("bit"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> =
        Ok(ReturnsRef::One(SqlMappingRef::literal("bit")));
}

/// Returns a bit for each element: 1 where it is above zero.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn binary_quantize(vector: Vector<'_>) -> Bits {
    let elements = vector.as_slice();
    let byte = |elements: &[f32]| {
        elements
            .iter()
            .enumerate()
            .fold(0, |byte, (i, x)| byte | (u8::from(*x > 0.0) << (7 - i)))
    };
    Bits {
        length: elements.len(),
        bytes: elements.chunks(8).map(byte).collect(),
    }
}
