//! Letters with accents, and other signs that have a command.

use super::tokens::{command_length, group};

/// Letters by their accent and what they are without it.
const LETTERS: &str = "'aá'eé'ií'oó'uú'yý'cć'nń'sś'zź'lĺ'rŕ'AÁ'EÉ'IÍ'OÓ'UÚ'YÝ'CĆ'NŃ'SŚ'ZŹ\
    `aà`eè`iì`oò`uù`AÀ`EÈ`IÌ`OÒ`UÙ^aâ^eê^iî^oô^uû^cĉ^gĝ^hĥ^jĵ^sŝ^wŵ^yŷ^AÂ^EÊ^IÎ^OÔ^UÛ^CĈ^GĜ^HĤ\
    ^JĴ^SŜ\
    \"aä\"eë\"iï\"oö\"uü\"yÿ\"AÄ\"EË\"IÏ\"OÖ\"UÜ~aã~nñ~oõ~iĩ~uũ~AÃ~NÑ~OÕcçççcCÇcsşcSŞctţcTŢcgģ\
    vcčvCČvdďvDĎveěvEĚvnňvNŇvrřvRŘvsšvSŠvtťvTŤvzžvZŽHoőHOŐHuűHUŰkaąkAĄkeękEĘkiįkuų\
    uaăuAĂugğuGĞuuŭuUŬ.zż.ZŻ.cċ.eė.EĖ.gġ.Iİ=aā=eē=iī=oō=uū=AĀ=EĒ=OŌ=UŪraåruůrUŮdaạdeẹdsṣdhḥ";

/// Returns a letter with an accent.
pub fn with_accent(accent: char, letter: char) -> Option<String> {
    let letters: Vec<char> = LETTERS.chars().collect();
    let found = letters
        .chunks_exact(3)
        .find(|of| of[0] == accent && of[1] == letter)
        .map(|of| of[2].to_string());
    found.or_else(|| {
        let mark = match accent {
            '\'' => '\u{301}',
            '`' => '\u{300}',
            '^' => '\u{302}',
            '"' => '\u{308}',
            '~' => '\u{303}',
            'c' => '\u{327}',
            'v' => '\u{30C}',
            'H' => '\u{30B}',
            'k' => '\u{328}',
            'u' => '\u{306}',
            '.' => '\u{307}',
            '=' => '\u{304}',
            'r' => '\u{30A}',
            'd' => '\u{323}',
            _ => return None,
        };
        letter.is_alphabetic().then(|| format!("{letter}{mark}"))
    })
}

/// Reads a letter with an accent: `\'e`, `\c{c}`, `\"\i`.
pub fn accented<'t>(name: &str, rest: &'t str) -> Option<(String, &'t str)> {
    let accent = name.chars().next().filter(|_| name.len() == 1)?;
    let is_letter = accent.is_ascii_alphabetic();
    let trimmed = if is_letter { rest.trim_start() } else { rest };
    let (letter, after) = match group(trimmed).filter(|_| trimmed.starts_with('{')) {
        Some(pair) => pair,
        None => {
            let length = command_length(trimmed).max(trimmed.chars().next()?.len_utf8());
            if is_letter && rest.len() == trimmed.len() {
                return None;
            }
            trimmed.split_at(length)
        }
    };
    let letter = letter.trim().trim_start_matches('\\');
    let only = letter
        .chars()
        .next()
        .filter(|c| letter.len() == c.len_utf8())?;
    Some((with_accent(accent, only)?, after))
}

/// Returns what a command without arguments is shown as.
pub fn sign(name: &str) -> Option<&'static str> {
    Some(match name {
        "ss" => "ß",
        "o" => "ø",
        "O" => "Ø",
        "l" => "ł",
        "L" => "Ł",
        "aa" => "å",
        "AA" => "Å",
        "ae" => "æ",
        "AE" => "Æ",
        "oe" => "œ",
        "OE" => "Œ",
        "i" => "i",
        "j" => "j",
        "ldots" | "dots" | "textellipsis" => "…",
        "LaTeX" | "LaTeXe" => "LaTeX",
        "TeX" => "TeX",
        "BibTeX" => "BibTeX",
        "S" => "§",
        "P" => "¶",
        "dag" => "†",
        "ddag" => "‡",
        "copyright" | "textcopyright" => "©",
        "textregistered" => "®",
        "texttrademark" => "™",
        "pounds" | "textsterling" => "£",
        "euro" | "texteuro" => "€",
        "textdegree" | "degree" => "°",
        "textbackslash" => "\\",
        "textasciitilde" => "~",
        "textasciicircum" => "^",
        "textunderscore" => "_",
        "textbar" => "|",
        "textless" => "<",
        "textgreater" => ">",
        "textquotedblleft" => "“",
        "textquotedblright" => "”",
        "textendash" => "–",
        "textemdash" => "—",
        "textbullet" => "•",
        "quad" | "qquad" | "enspace" | "thinspace" | "space" | "hfill" | "tab" => " ",
        "newline" | "linebreak" => "\n",
        "&" | "%" | "$" | "#" | "_" | "{" | "}" => match name {
            "&" => "&",
            "%" => "%",
            "$" => "$",
            "#" => "#",
            "_" => "_",
            "{" => "{",
            _ => "}",
        },
        " " | "\n" | "\t" => " ",
        "," | ";" | ":" | ">" => " ",
        "-" | "/" | "!" | "@" => "",
        _ => return None,
    })
}
