//! Values of PostgreSQL's type `bit`: their distances, and the signs of a vector's elements.
#![allow(unsafe_code)] // datums

use pgrx::{
    callconv::{Arg, ArgAbi, BoxRet, FcInfo},
    datum::{Datum, FromDatum},
    pg_extern, pg_sys,
    pg_sys::panic::ErrorReport,
    pgrx_sql_entity_graph::metadata::{
        ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
    },
};
use rag_ann::half::Half;

use super::vector::{
    Elements, OwnedVector, Vector, VectorElement, check_dimensions, maps_to_sql_type,
};
use crate::error::Error;

/// A value that PostgreSQL passed in. The first bit is the highest of the first byte, and bits
/// after the last are 0.
#[derive(Clone, Copy)]
pub struct Bits<'a> {
    pub length: usize,
    pub bytes: &'a [u8],
}

impl<'a> Bits<'a> {
    /// # Safety
    /// `datum` is a non-null datum of type `bit` or `varbit`. It outlives `'a`, and so does the
    /// current memory context.
    pub unsafe fn from_raw(datum: pg_sys::Datum) -> Self {
        // SAFETY: the caller's promise. What follows the header is a number of bits as i32, which
        // may not be aligned, and as many bits (`VarBit` in utils/varbit.h).
        unsafe {
            let plain = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            let content: &'a [u8] = pgrx::varlena::varlena_to_byte_slice(plain);
            let (length, bytes) = content.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
            let length = usize::try_from(i32::from_ne_bytes(*length)).unwrap_or(0);
            let length = length.min(bytes.len() * 8);
            Self { length, bytes }
        }
    }

    /// Replaces the content of `out` by an element for each bit: 0 or 1.
    pub fn expand(self, out: &mut Vec<f32>) {
        const EXPANDED: [[f32; 8]; 256] = {
            let mut all = [[0.0; 8]; 256];
            let mut byte = 0;
            while byte < 256 {
                let mut bit = 0;
                while bit < 8 {
                    all[byte][bit] = (byte >> (7 - bit) & 1) as f32;
                    bit += 1;
                }
                byte += 1;
            }
            all
        };
        static TABLE: [[f32; 8]; 256] = EXPANDED;
        out.clear();
        for byte in self.bytes {
            out.extend_from_slice(&TABLE[usize::from(*byte)]);
        }
        out.truncate(self.length);
    }
}

/// Numbers of bits that are set: in both, in the first, and in the second value.
#[derive(Default)]
struct Counts {
    both: u64,
    a: u64,
    b: u64,
}

/// # Errors
/// The values have different lengths.
fn count(a: Bits<'_>, b: Bits<'_>) -> Result<Counts, Error> {
    if a.length != b.length {
        return Err(Error::data_exception(format!(
            "different bit lengths {} and {}",
            a.length, b.length
        )));
    }
    let mut counts = Counts::default();
    let mut add = |x: u64, y: u64| {
        counts.both += u64::from((x & y).count_ones());
        counts.a += u64::from(x.count_ones());
        counts.b += u64::from(y.count_ones());
    };
    let (a_words, a_tail) = a.bytes.as_chunks::<8>();
    let (b_words, b_tail) = b.bytes.as_chunks::<8>();
    for (x, y) in a_words.iter().zip(b_words) {
        add(u64::from_ne_bytes(*x), u64::from_ne_bytes(*y));
    }
    for (x, y) in a_tail.iter().zip(b_tail) {
        add(u64::from(*x), u64::from(*y));
    }
    Ok(counts)
}

/// Number of bits that differ, operator `<~>`.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn hamming_distance(a: Bits<'_>, b: Bits<'_>) -> Result<f64, ErrorReport> {
    let Counts { both, a, b } = count(a, b)?;
    Ok((a + b - 2 * both) as f64)
}

/// 1 - the bits that both have, of all that either has, operator `<%>`. 1 if they have none in
/// common.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn jaccard_distance(a: Bits<'_>, b: Bits<'_>) -> Result<f64, ErrorReport> {
    let Counts { both, a, b } = count(a, b)?;
    Ok(jaccard(both as f64, a as f64, b as f64))
}

/// Returns the Jaccard distance of two sets: `both` is the size of what they have in common.
pub fn jaccard(both: f64, a: f64, b: f64) -> f64 {
    if both == 0.0 {
        1.0
    } else {
        1.0 - both / (a + b - both)
    }
}

/// Returns a bit for each element: 1 if it is above zero.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn binary_quantize(vector: Vector<'_>) -> BitString {
    signs(vector)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn halfvec_binary_quantize(vector: Elements<'_, Half>) -> BitString {
    signs(vector)
}

fn signs<E: VectorElement>(vector: Elements<'_, E>) -> BitString {
    let elements = vector.as_slice();
    let byte = |elements: &[E]| {
        let bits = elements.iter().map(|x| u8::from(x.to_f32() > 0.0));
        bits.zip(0..)
            .fold(0, |byte, (bit, i)| byte | bit << (7 - i))
    };
    BitString {
        length: elements.len(),
        bytes: elements.chunks(8).map(byte).collect(),
    }
}

/// Returns a vector with an element for each bit: 0 or 1.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn bits_to_vector(bits: Bits<'_>) -> Result<OwnedVector, ErrorReport> {
    check_dimensions::<f32>(bits.length)?;
    let mut elements = vec![];
    bits.expand(&mut elements);
    Ok(OwnedVector::new(elements)?)
}

/// A value to be returned.
pub struct BitString {
    pub length: usize,
    pub bytes: Vec<u8>,
}

/// What precedes the bits: the varlena header and their number, an i32 each (`VarBit` in
/// utils/varbit.h).
const HEADER_BYTES: usize = 8;

// SAFETY: returns a datum of the declared type, allocated in the current memory context.
unsafe impl BoxRet for BitString {
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

impl FromDatum for Bits<'_> {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _: pg_sys::Oid,
    ) -> Option<Self> {
        // SAFETY: the caller's promise.
        (!is_null).then(|| unsafe { Self::from_raw(datum) })
    }
}

// SAFETY: reads the argument as what the SQL declares it to be.
unsafe impl<'fcx> ArgAbi<'fcx> for Bits<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the functions are STRICT, so that the datum is not null.
        unsafe { arg.unbox_arg_using_from_datum() }
            .unwrap_or_else(|| Error::internal("unexpected NULL bit string").raise())
    }
}

maps_to_sql_type!(Bits<'_>, "bit");
maps_to_sql_type!(BitString, "bit");
