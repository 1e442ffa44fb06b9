//! Text form `[1,2.5,-3]`, binary form (dimensions i16, zero i16, f32 each; network byte order),
//! and the typmod.

use std::ffi::{CStr, CString};

use pgrx::{pg_extern, pg_sys, pg_sys::panic::ErrorReport};

use super::{
    Elements, Message, OwnedElements, OwnedVector, Vector, VectorElement, check_dimensions,
    datum::append_float,
};
use crate::error::Error;

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_in(text: &CStr, _type: pg_sys::Oid, typmod: i32) -> Result<OwnedVector, ErrorReport> {
    Ok(read_text(text, typmod)?)
}

/// # Errors
/// The text is no vector, an element is not finite, or the typmod asks for other dimensions.
pub fn read_text<E: VectorElement>(text: &CStr, typmod: i32) -> Result<OwnedElements<E>, Error> {
    let elements = parse(text)?;
    check_typmod(elements.len(), typmod)?;
    OwnedElements::new(elements)
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_out(vector: Vector<'_>) -> CString {
    to_text(vector)
}

pub fn to_text<E: VectorElement>(vector: Elements<'_, E>) -> CString {
    let mut text = Vec::with_capacity(vector.dimensions() * 12 + 2);
    text.push(b'[');
    for (i, x) in vector.as_slice().iter().enumerate() {
        if i > 0 {
            text.push(b',');
        }
        append_float(&mut text, x.to_f32());
    }
    text.push(b']');
    CString::new(text).unwrap_or_default()
}

/// Parses the text form. White space is allowed around brackets, commas and numbers.
fn parse<E: VectorElement>(text: &CStr) -> Result<Vec<E>, Error> {
    let text = text.to_string_lossy();
    let syntax = |detail: &str| {
        Error::invalid_text(format!(
            "invalid input syntax for type {}: \"{}\"",
            E::TYPE,
            shorten(&text)
        ))
        .detail(detail)
    };
    let inner = text.trim_ascii();
    let inner = inner
        .strip_prefix('[')
        .ok_or_else(|| syntax("Vector contents must start with \"[\"."))?;
    let Some((inner, after)) = inner.split_once(']') else {
        return Err(syntax("Vector contents must end with \"]\"."));
    };
    if !after.trim_ascii().is_empty() {
        return Err(syntax("Junk after closing right brace."));
    }
    if inner.trim_ascii().is_empty() {
        check_dimensions::<E>(0)?;
    }
    let mut elements = Vec::new();
    for element in inner.split(',') {
        let element = element.trim_ascii();
        let x: f32 = element
            .parse()
            .map_err(|_| syntax("Each element must be a number."))?;
        let nearest = E::nearest(x);
        if nearest.to_f32().is_infinite() && !element.to_ascii_lowercase().contains("inf") {
            return Err(out_of_range::<E>(element));
        }
        if elements.len() == super::MAX_DIMENSIONS {
            check_dimensions::<E>(elements.len() + 1)?;
        }
        elements.push(nearest);
    }
    Ok(elements)
}

/// Returns the error for a number that no element can be.
pub fn out_of_range<E: VectorElement>(number: impl std::fmt::Display) -> Error {
    Error::out_of_range(format!("\"{number}\" is out of range for type {}", E::TYPE))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_recv(
    mut message: Message<'_>,
    _type: pg_sys::Oid,
    typmod: i32,
) -> Result<OwnedVector, ErrorReport> {
    Ok(receive(&mut message, typmod)?)
}

/// # Errors
/// The message is no vector, an element is not finite, or the typmod asks for other dimensions.
pub fn receive<E: VectorElement>(
    message: &mut Message<'_>,
    typmod: i32,
) -> Result<OwnedElements<E>, Error> {
    let (dimensions, unused) = (message.read_i16(), message.read_i16());
    check_dimensions::<E>(usize::try_from(dimensions).unwrap_or(0))?;
    check_typmod(dimensions as usize, typmod)?;
    if unused != 0 {
        return Err(Error::data_exception(format!(
            "expected unused to be 0, not {unused}"
        )));
    }
    OwnedElements::new((0..dimensions).map(|_| E::read(message)).collect())
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_send(vector: Vector<'_>) -> Vec<u8> {
    send(vector)
}

pub fn send<E: VectorElement>(vector: Elements<'_, E>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + 4 * vector.dimensions());
    bytes.extend((vector.dimensions() as i16).to_be_bytes());
    bytes.extend(0i16.to_be_bytes());
    for x in vector.as_slice() {
        x.append(&mut bytes);
    }
    bytes
}

#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_typmod_in(modifiers: pgrx::Array<'_, &CStr>) -> Result<i32, ErrorReport> {
    Ok(read_typmod::<f32>(modifiers)?)
}

/// # Errors
/// The modifier is no number of dimensions, or there are several.
pub fn read_typmod<E: VectorElement>(modifiers: pgrx::Array<'_, &CStr>) -> Result<i32, Error> {
    let modifiers: Vec<_> = modifiers.iter().flatten().collect();
    let hint = format!("Write {}(384).", E::TYPE);
    let [dimensions] = modifiers.as_slice() else {
        return Err(Error::invalid_parameter("invalid type modifier").hint(hint));
    };
    let text = dimensions.to_string_lossy();
    match text.trim().parse::<i32>() {
        Ok(n) if n < 1 => Err(Error::invalid_parameter(format!(
            "dimensions for type {} must be at least 1",
            E::TYPE
        ))),
        Ok(n) if n as usize > super::MAX_DIMENSIONS => Err(Error::invalid_parameter(format!(
            "dimensions for type {} cannot exceed {}",
            E::TYPE,
            super::MAX_DIMENSIONS
        ))),
        Ok(n) => Ok(n),
        Err(_) => {
            Err(Error::invalid_parameter(format!("invalid type modifier \"{text}\"")).hint(hint))
        }
    }
}

/// The cast that enforces the typmod on assignment.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn vector_typmod_cast(
    vector: Vector<'_>,
    typmod: i32,
    _explicit: bool,
) -> Result<OwnedVector, ErrorReport> {
    Ok(with_typmod(vector, typmod)?)
}

/// # Errors
/// The typmod asks for other dimensions.
pub fn with_typmod<E: VectorElement>(
    vector: Elements<'_, E>,
    typmod: i32,
) -> Result<OwnedElements<E>, Error> {
    check_typmod(vector.dimensions(), typmod)?;
    OwnedElements::new(vector.as_slice().to_vec())
}

/// # Errors
/// `typmod` asks for another number of dimensions; -1 asks for none.
pub fn check_typmod(dimensions: usize, typmod: i32) -> Result<(), Error> {
    match usize::try_from(typmod) {
        Ok(expected) if expected != dimensions => Err(Error::data_exception(format!(
            "expected {expected} dimensions, not {dimensions}"
        ))),
        _ => Ok(()),
    }
}
