//! Fonts whose characters are pictures: Symbol, Wingdings and Webdings. A document names such a
//! font and a code.
//!
//! Boxes with a tick and with a cross both mean that something was chosen. They are the sign that
//! Word itself has in a ticked box, ☒, and empty boxes are ☐: so one query finds all of them.

/// Unicode characters for the codes from 0x20. A space stands for those without one.
const SYMBOL: &str = "\
\u{20}!∀#∃%&∋()∗+,−./0123456789:;<=>?\
≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_\
‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼ \
\u{20}                               \
€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵\
ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓\
◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ ⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭ ";
const WINGDINGS: &str = "\
\u{20}✏✂✁👓🔔📖🕯☎✆✉🖃📪📫📬📭📁📂📄🗏🗐🗄⌛🖮🖰🖲🖳🖴🖫🖬✇✍\
🖎✌👌👍👎☜☞☝☟🖐☺😐☹💣☠🏳🏱✈☼💧❄🕆✞🕈✠✡☪☯ॐ☸♈♉\
♊♋♌♍♎♏♐♑♒♓🙰🙵●❍■☐▫❑❒⬧⧫◆❖⬥⌧⮹⌘🏵🏶❝❞ \
⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿🙢🙠🙡🙣🙞🙜🙝🙟·•\
▪○◯◉◉◎○▪☐▴✦★✶✴✹✵⯐⌖⟡⌑⯑✪✰🕐🕑🕒🕓🕔🕕🕖🕗🕘\
🕙🕚🕛⮰⮱⮲⮳⮴⮵⮶⮷🙪🙫🙕🙔🙗🙖🙐🙑🙒🙓⌫⌦⮘➢⮙⮛⮈➲⮉⮋←\
→↑↓↖↗↙↘←→↑↓↖↗↙↘⇦⇨⇧⇩⬄⇳⬁⬀⬃⬂▭▫✗✓☒☒ ";

/// Returns the table of a font, and what is known of a font without one.
fn table(font: &str) -> Option<(&'static str, &'static [(u32, char)])> {
    const WINGDINGS_2: &[(u32, char)] = &[
        (0x4F, '✗'),
        (0x50, '✓'),
        (0x51, '☒'),
        (0x52, '☒'),
        (0x53, '☒'),
        (0x54, '☒'),
        (0x95, '•'),
        (0x96, '●'),
        (0x98, '●'),
        (0x99, '○'),
        (0xA0, '■'),
        (0xA3, '☐'),
    ];
    const WINGDINGS_3: &[(u32, char)] = &[
        (0x66, '←'),
        (0x67, '→'),
        (0x68, '↑'),
        (0x69, '↓'),
        (0x70, '▲'),
        (0x71, '▼'),
        (0x72, '△'),
        (0x73, '▽'),
        (0x74, '◀'),
        (0x75, '▶'),
        (0x76, '◁'),
        (0x77, '▷'),
        (0x7D, '▶'),
    ];
    const WEBDINGS: &[(u32, char)] = &[
        (0x33, '◀'),
        (0x34, '▶'),
        (0x35, '▲'),
        (0x36, '▼'),
        (0x61, '✓'),
        (0x63, '☐'),
        (0x67, '■'),
        (0x69, 'ℹ'),
        (0x6E, '●'),
        (0x72, '✗'),
    ];
    match font.trim().to_lowercase().as_str() {
        "symbol" => Some((SYMBOL, &[])),
        "wingdings" => Some((WINGDINGS, &[])),
        "wingdings 2" => Some(("", WINGDINGS_2)),
        "wingdings 3" => Some(("", WINGDINGS_3)),
        "webdings" => Some(("", WEBDINGS)),
        _ => None,
    }
}

pub fn is_symbol_font(font: &str) -> bool {
    table(font).is_some()
}

/// Returns what a font shows for a character, or `None` if that is not known.
pub fn shown(font: &str, character: char) -> Option<char> {
    let code = match character as u32 {
        code @ 0xF000..=0xF0FF => code - 0xF000,
        code => code,
    };
    match table(font) {
        // A character that the font does not have is shown in another font.
        Some(_) if code > 0xFF => Some(character),
        Some(_) if code <= 0x20 => Some(' '),
        Some(("", few)) => few
            .iter()
            .find(|(of, _)| *of == code)
            .map(|(_, sign)| *sign),
        Some((all, _)) => all
            .chars()
            .nth(code as usize - 0x20)
            .filter(|sign| *sign != ' '),
        None => (code == character as u32).then_some(character),
    }
}

/// Returns true for signs that say whether something is chosen or done.
pub fn is_box_or_tick(sign: char) -> bool {
    matches!(sign, '☐' | '☑' | '☒' | '✓' | '✔' | '✗' | '✘')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_a_table_has_its_place() {
        assert_eq!(SYMBOL.chars().count(), 0xE0);
        assert_eq!(WINGDINGS.chars().count(), 0xE0);
        for (font, code, expected) in [
            ("Symbol", '\u{F061}', Some('α')),
            ("symbol", 'W', Some('Ω')),
            ("Symbol", '\u{F0B7}', Some('•')),
            ("Symbol", '\u{F0A3}', Some('≤')),
            ("Symbol", '\u{F0B1}', Some('±')),
            ("Symbol", '\u{F0E5}', Some('∑')),
            ("Symbol", '\u{F0F2}', Some('∫')),
            ("Symbol", '\u{F0FF}', None),
            ("Wingdings", '\u{F0FE}', Some('☒')),
            ("Wingdings", '\u{F0FD}', Some('☒')),
            ("Wingdings", '\u{F0FC}', Some('✓')),
            ("Wingdings", '\u{F0A8}', Some('☐')),
            ("Wingdings", '\u{F06F}', Some('☐')),
            ("Wingdings", '\u{F0E0}', Some('→')),
            ("Wingdings", '\u{F04A}', Some('☺')),
            ("Wingdings", '\u{F081}', Some('①')),
            ("Wingdings", '\u{F0A7}', Some('▪')),
            ("Wingdings", '→', Some('→')),
            ("Wingdings 2", '\u{F052}', Some('☒')),
            ("Wingdings 2", '\u{F021}', None),
            ("Arial", '\u{F021}', None),
            ("MS Gothic", '☐', Some('☐')),
        ] {
            assert_eq!(shown(font, code), expected, "{font} {code:?}");
        }
    }
}
