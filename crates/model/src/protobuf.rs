//! The wire format of Protocol Buffers, as far as an ONNX file needs it: writing only.
//!
//! A message is a sequence of fields; a field is a key (`number << 3 | wire type`) and a value.
//! Source: "Encoding" in the Protocol Buffers documentation.

const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;
const FIXED_32: u64 = 5;

/// One message under construction.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Message(Vec<u8>);

impl Message {
    #[must_use]
    pub fn int(mut self, field: u32, value: i64) -> Self {
        self.key(field, VARINT);
        self.varint(value as u64); // negative numbers take ten bytes, as the format says
        self
    }

    #[must_use]
    pub fn float(mut self, field: u32, value: f32) -> Self {
        self.key(field, FIXED_32);
        self.0.extend(value.to_le_bytes());
        self
    }

    #[must_use]
    pub fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.key(field, LENGTH_DELIMITED);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    #[must_use]
    pub fn string(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    #[must_use]
    pub fn message(self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    /// Appends the fields of another message of the same type.
    #[must_use]
    pub fn merge(mut self, other: &Self) -> Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the Protocol Buffers documentation.
    #[test]
    fn the_documentations_examples() {
        assert_eq!(
            Message::default().int(1, 150).as_bytes(),
            [0x08, 0x96, 0x01]
        );
        assert_eq!(
            Message::default().string(2, "testing").as_bytes(),
            b"\x12\x07testing"
        );
        let inner = Message::default().int(1, 150);
        assert_eq!(
            Message::default().message(3, &inner).as_bytes(),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        let minus_two = [
            0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ];
        assert_eq!(Message::default().int(1, -2).as_bytes(), minus_two);
    }

    #[test]
    fn floats_are_little_endian_and_fields_above_15_take_two_bytes() {
        assert_eq!(
            Message::default().float(2, 1.0).as_bytes(),
            [0x15, 0, 0, 0x80, 0x3f]
        );
        assert_eq!(Message::default().int(20, 2).as_bytes(), [0xa0, 0x01, 0x02]);
    }
}
