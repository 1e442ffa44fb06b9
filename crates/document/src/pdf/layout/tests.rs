use super::*;

/// Characters half an em wide, at (x, y) in points, 10 points high.
fn text(x: f32, y: f32, text: &str) -> Vec<Glyph> {
    let place = |(i, c)| Glyph {
        c,
        frame: Frame::of(x + 5.0 * i as f32, y, 0.0, 5.0),
        size: 10.0,
        object: (x * 7.0 + y * 1000.0) as usize,
        new_line: false,
    };
    text.chars().enumerate().map(place).collect()
}

fn read(glyphs: &[Vec<Glyph>]) -> Vec<String> {
    page(glyphs.concat(), vec![])
        .lines
        .into_iter()
        .map(|line| line.text)
        .collect()
}

#[test]
fn cells_of_a_row_are_sorted_and_separated() {
    let row = [
        text(300.0, 700.0, "2.50"),
        text(72.0, 700.0, "Green tea"),
        text(72.0, 680.0, "Coffee"),
    ];
    assert_eq!(read(&row), ["Green tea\t2.50", "Coffee"]);
}

#[test]
fn a_picture_that_is_text_stands_in_its_line() {
    let rows = [text(72.0, 700.0, "Green tea"), text(72.0, 680.0, "Coffee")].concat();
    let lines = page(rows, text(150.0, 701.0, "\u{1F375}!")).lines;
    assert_eq!(lines[0].text, "Green tea\t\u{1F375}!");
}

#[test]
fn text_drawn_twice_is_read_once() {
    assert_eq!(
        read(&[
            text(72.0, 700.0, "Bold bells"),
            text(72.3, 700.2, "Bold bells")
        ]),
        ["Bold bells"]
    );
}

#[test]
fn the_number_of_a_note_is_not_part_of_a_number() {
    let mut note = text(92.0, 704.0, "1");
    note[0].size = 6.0;
    assert_eq!(read(&[text(72.0, 700.0, "8935"), note.clone()]), ["8935 1"]);
    assert_eq!(read(&[text(72.0, 700.0, "word"), note]), ["word1"]);
}

#[test]
fn letters_set_apart_are_words() {
    let apart = |text: &str| -> Vec<Glyph> {
        let place = |(i, c)| Glyph {
            c,
            frame: Frame::of(72.0 + 8.0 * i as f32, 700.0, 0.0, 5.0),
            size: 10.0,
            object: 1,
            new_line: false,
        };
        text.chars()
            .enumerate()
            .filter(|(_, c)| *c != '_')
            .map(place)
            .collect()
    };
    assert_eq!(read(&[apart("TEA_TIME")]), ["TEA TIME"]);
    // Text that may be a row of numbers is unchanged.
    assert_eq!(read(&[apart("12345")]), ["1 2 3 4 5"]);
}

#[test]
fn rotated_text_is_read_like_any_other() {
    let turned = |angle: f32| {
        let (sin, cos) = angle.sin_cos();
        let turn = |glyph: Glyph| {
            let Frame { u, v, .. } = glyph.frame;
            Glyph {
                frame: Frame::of(u * cos - v * sin, u * sin + v * cos, angle, 5.0),
                ..glyph
            }
        };
        let lines = [
            text(72.0, 700.0, "Total for"),
            text(300.0, 700.0, "2019"),
            text(72.0, 680.0, "next"),
        ];
        let lines = lines.map(|glyphs| glyphs.into_iter().map(turn).collect::<Vec<_>>());
        page(lines.concat(), vec![])
    };
    for degrees in [0, 90, 180, 270] {
        let page = turned(degrees as f32 * PI / 180.0);
        let lines: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(lines, ["Total for\t2019", "next"], "{degrees}");
        assert!(page.lines[0].level > page.lines[1].level, "{degrees}");
    }
}
