//! The wire format of Protocol Buffers, as far as an ONNX file needs it: reading only.
//!
//! Source: "Encoding" in the Protocol Buffers documentation. [`crate::protobuf`] writes.

use std::io::{self, Read};

/// Maximum size of a field that is read into memory, in bytes: more than any graph of one file can
/// hold.
const MAX_FIELD: u64 = 1 << 31;

/// The start of a field of a Protocol Buffers message: its number, and its value or the length of
/// the value.
#[derive(Clone, Copy)]
pub(crate) enum Field {
    Integer(u64, u64),
    Bytes(u64, u64),
}

impl Field {
    pub fn next(message: &mut impl Read) -> io::Result<Option<Self>> {
        let Some(tag) = varint(message)? else {
            return Ok(None);
        };
        let number = tag >> 3;
        let mut integer = || varint(message)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
        match tag & 7 {
            0 => integer().map(|value| Some(Self::Integer(number, value))),
            2 => integer().map(|length| Some(Self::Bytes(number, length))),
            1 => Ok(Some(Self::Bytes(0, 8))),
            5 => Ok(Some(Self::Bytes(0, 4))),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub fn skip(self, message: &mut impl Read) -> io::Result<()> {
        let Self::Bytes(_, length) = self else {
            return Ok(());
        };
        match io::copy(&mut message.by_ref().take(length), &mut io::sink())? {
            copied if copied == length => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Returns the content of a field.
pub(crate) fn field_bytes(message: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    if length > MAX_FIELD {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![];
    match message.by_ref().take(length).read_to_end(&mut bytes)? as u64 {
        read if read == length => Ok(bytes),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Returns `None` at the end of the message.
pub(crate) fn varint(message: &mut impl Read) -> io::Result<Option<u64>> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        if message.read(&mut byte)? == 0 {
            return if shift == 0 {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(Some(value));
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}
