//! Numbers as lists write them (ECMA-376, `ST_NumberFormat`).

/// Writes a number in a format, in decimals where the format is not known.
pub fn written(number: u32, format: &str) -> String {
    match format {
        "none" => String::new(),
        "decimalZero" => format!("{number:02}"),
        "upperLetter" => letters(number, 'A', 26),
        "lowerLetter" => letters(number, 'a', 26),
        "russianUpper" => cyrillic(number).to_uppercase(),
        "russianLower" => cyrillic(number),
        "upperRoman" => roman(number).to_uppercase(),
        "lowerRoman" => roman(number),
        "ordinal" => format!("{number}{}", ordinal_end(number)),
        "decimalEnclosedCircle" | "decimalEnclosedCircleChinese" if (1..=20).contains(&number) => {
            char::from_u32(0x245F + number).map_or_else(String::new, String::from)
        }
        "decimalFullWidth" | "decimalFullWidth2" => number
            .to_string()
            .chars()
            .filter_map(|c| char::from_u32(c as u32 - '0' as u32 + 0xFF10))
            .collect(),
        "chineseCounting"
        | "chineseCountingThousand"
        | "japaneseCounting"
        | "ideographDigital"
        | "taiwaneseCounting"
        | "taiwaneseCountingThousand"
        | "koreanDigital2" => chinese(number),
        "ideographTraditional" => one_of("甲乙丙丁戊己庚辛壬癸", number),
        "ideographZodiac" => one_of("子丑寅卯辰巳午未申酉戌亥", number),
        "ganada" => one_of("가나다라마바사아자차카타파하", number),
        "aiueo" | "aiueoFullWidth" => one_of("アイウエオカキクケコサシスセソタチツテト", number),
        "iroha" | "irohaFullWidth" => one_of("イロハニホヘトチリヌルヲワカヨタレソツネ", number),
        _ => number.to_string(),
    }
}

/// Returns a, b, ... z, aa, bb, as Word counts.
fn letters(number: u32, first: char, count: u32) -> String {
    if !(1..=count * 30).contains(&number) {
        return number.to_string();
    }
    let letter = char::from_u32(first as u32 + (number - 1) % count).unwrap_or(first);
    let times = (number - 1) / count + 1;
    letter.to_string().repeat(times as usize)
}

fn cyrillic(number: u32) -> String {
    one_of("абвгдежзиклмнопрстуфхцчшщыэюя", number)
}

fn one_of(signs: &str, number: u32) -> String {
    let place = (number as usize).checked_sub(1);
    match place.and_then(|place| signs.chars().nth(place)) {
        Some(sign) => sign.to_string(),
        None => number.to_string(),
    }
}

/// Returns a number from 1 to 3999 in small Roman numerals.
pub fn roman(number: u32) -> String {
    const SIGNS: [(u32, &str); 13] = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    if !(1..4000).contains(&number) {
        return number.to_string();
    }
    let mut rest = number;
    let mut text = String::new();
    for (value, sign) in SIGNS {
        while rest >= value {
            text.push_str(sign);
            rest -= value;
        }
    }
    text
}

fn ordinal_end(number: u32) -> &'static str {
    match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    }
}

/// Returns a number up to 9999 in Chinese numerals.
fn chinese(number: u32) -> String {
    const DIGITS: [char; 10] = ['〇', '一', '二', '三', '四', '五', '六', '七', '八', '九'];
    if !(1..10_000).contains(&number) {
        return number.to_string();
    }
    let mut text = String::new();
    let mut gap = false;
    for (unit, sign) in [(1000, "千"), (100, "百"), (10, "十"), (1, "")] {
        let digit = number / unit % 10;
        if digit == 0 {
            gap = !text.is_empty();
            continue;
        }
        if std::mem::take(&mut gap) {
            text.push('零');
        }
        // Ten is 十, and twenty 二十.
        if digit > 1 || unit != 10 || !text.is_empty() {
            text.push(DIGITS[digit as usize]);
        }
        text.push_str(sign);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_their_format() {
        for (number, format, expected) in [
            (7, "decimal", "7"),
            (7, "decimalZero", "07"),
            (28, "lowerLetter", "bb"),
            (0, "lowerLetter", "0"),
            (4_000_000_000, "upperLetter", "4000000000"),
            (1994, "upperRoman", "MCMXCIV"),
            (4000, "lowerRoman", "4000"),
            (22, "ordinal", "22nd"),
            (112, "ordinal", "112th"),
            (3, "decimalEnclosedCircle", "③"),
            (21, "decimalEnclosedCircle", "21"),
            (12, "chineseCounting", "十二"),
            (105, "japaneseCounting", "一百零五"),
            (3, "russianLower", "в"),
            (12, "decimalFullWidth", "１２"),
            (9, "someday", "9"),
            (9, "none", ""),
        ] {
            assert_eq!(written(number, format), expected, "{number} {format}");
        }
    }
}
