//! Tokens of RTF: groups, control words, bytes of text.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    Open,
    Close,
    /// A control word with its number.
    Word(&'a str, Option<i32>),
    /// A control sign, such as `\~`.
    Sign(u8),
    /// Bytes in the code page of their font.
    Bytes(&'a [u8]),
}

pub struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Reads what follows a backslash.
    fn control(&mut self) -> Option<Token<'a>> {
        let letters = count(self.rest, u8::is_ascii_alphabetic);
        if letters == 0 {
            let sign = *self.take(1).first()?;
            return Some(match sign {
                b'\'' => match self.hexadecimal() {
                    Some(byte) => Token::Bytes(byte),
                    None => Token::Sign(b'\''),
                },
                b'\\' | b'{' | b'}' => Token::Bytes(sign_of(sign)),
                // A line end behind a backslash ends a paragraph.
                b'\n' | b'\r' => Token::Word("par", None),
                sign => Token::Sign(sign),
            });
        }
        let name = std::str::from_utf8(self.take(letters)).unwrap_or_default();
        let minus = usize::from(self.rest.first() == Some(&b'-'));
        let digits = count(&self.rest[minus..], u8::is_ascii_digit);
        let number = (digits > 0).then(|| {
            let text = std::str::from_utf8(self.take(minus + digits)).unwrap_or_default();
            text.parse().unwrap_or(0)
        });
        if self.rest.first() == Some(&b' ') {
            self.take(1);
        }
        if let ("bin", Some(length)) = (name, number) {
            self.take(usize::try_from(length).unwrap_or(0));
        }
        Some(Token::Word(name, number))
    }

    fn hexadecimal(&mut self) -> Option<&'static [u8]> {
        let digits = std::str::from_utf8(self.rest.get(..2)?).ok()?;
        let byte = u8::from_str_radix(digits, 16).ok()?;
        self.take(2);
        Some(sign_of(byte))
    }
}

/// Returns a slice of one byte.
fn sign_of(byte: u8) -> &'static [u8] {
    const ALL: [u8; 256] = {
        let mut all = [0; 256];
        let mut at = 0;
        while at < 256 {
            all[at] = at as u8;
            at += 1;
        }
        all
    };
    static BYTES: [u8; 256] = ALL;
    let at = usize::from(byte);
    &BYTES[at..=at]
}

fn count(bytes: &[u8], is_part: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| is_part(byte)).count()
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            match self.rest.first()? {
                b'{' => {
                    self.take(1);
                    return Some(Token::Open);
                }
                b'}' => {
                    self.take(1);
                    return Some(Token::Close);
                }
                b'\\' => {
                    self.take(1);
                    return self.control();
                }
                // Line ends are only there for the eye.
                b'\n' | b'\r' | 0 => {
                    self.take(1);
                }
                _ => {
                    let is_text = |b: &u8| !matches!(b, b'{' | b'}' | b'\\' | b'\n' | b'\r' | 0);
                    let length = count(self.rest, is_text);
                    return Some(Token::Bytes(self.take(length)));
                }
            }
        }
    }
}
