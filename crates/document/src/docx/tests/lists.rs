//! Numbers of lists and headings, and which styles are headings.

use super::*;

/// A level of a list.
fn level(at: usize, format: &str, text: &str, more: &str) -> String {
    format!(
        "<w:lvl w:ilvl=\"{at}\"><w:start w:val=\"1\"/><w:numFmt w:val=\"{format}\"/>{more}\
         <w:lvlText w:val=\"{text}\"/></w:lvl>"
    )
}

fn numbering(inner: &str) -> String {
    format!("<w:numbering>{inner}</w:numbering>")
}

fn abstract_list(id: usize, levels: &str) -> String {
    format!("<w:abstractNum w:abstractNumId=\"{id}\">{levels}</w:abstractNum>")
}

fn list(id: usize, of: usize, more: &str) -> String {
    format!("<w:num w:numId=\"{id}\"><w:abstractNumId w:val=\"{of}\"/>{more}</w:num>")
}

/// An item of a list.
fn item(list: usize, at: usize, text: &str) -> String {
    format!(
        "<w:p><w:pPr><w:numPr><w:ilvl w:val=\"{at}\"/><w:numId w:val=\"{list}\"/></w:numPr></w:pPr>{}\
         </w:p>",
        r(text)
    )
}

fn styled(style: &str, text: &str) -> String {
    format!(
        "<w:p><w:pPr><w:pStyle w:val=\"{style}\"/></w:pPr>{}</w:p>",
        r(text)
    )
}

fn style(id: &str, inner: &str) -> String {
    format!("<w:style w:type=\"paragraph\" w:styleId=\"{id}\">{inner}</w:style>")
}

fn check(body: &[String], numbers: &str, styles: &str, expected: &str) {
    let styles = format!("<w:styles>{styles}</w:styles>");
    let parts = [
        ("word/numbering.xml", numbers),
        ("word/styles.xml", styles.as_str()),
    ];
    assert_eq!(text_with(&body.concat(), &parts), expected);
}

#[test]
fn numbers_count_as_word_does() {
    let levels = level(0, "decimal", "%1.", "")
        + &level(1, "decimal", "%1.%2", "")
        + &level(2, "lowerRoman", "(%3)", "");
    let numbers = numbering(&(abstract_list(0, &levels) + &list(1, 0, "")));
    check(
        &[
            item(1, 0, "a"),
            item(1, 1, "b"),
            item(1, 1, "c"),
            item(1, 2, "d"),
            item(1, 0, "e"),
            item(1, 1, "f"),
            item(1, 2, "g"),
            p("between"),
            item(1, 0, "h"),
        ],
        &numbers,
        "",
        "1. a\n  1.1 b\n  1.2 c\n    (i) d\n2. e\n  2.1 f\n    (i) g\n\nbetween\n\n3. h",
    );
    // An outer level without a paragraph counts as begun.
    check(
        &[item(1, 1, "a"), item(1, 1, "b"), item(1, 0, "c")],
        &numbers,
        "",
        "  1.1 a\n  1.2 b\n2. c",
    );
}

#[test]
fn lists_continue_or_start_again() {
    let start = "<w:lvlOverride w:ilvl=\"0\"><w:startOverride w:val=\"5\"/></w:lvlOverride>";
    let replaced = format!(
        "<w:lvlOverride w:ilvl=\"0\">{}</w:lvlOverride>",
        level(0, "upperLetter", "Annex %1:", "")
    );
    let numbers = numbering(
        &(abstract_list(0, &level(0, "decimal", "%1)", ""))
            + &list(1, 0, "")
            + &list(2, 0, "")
            + &list(3, 0, start)
            + &list(4, 0, &replaced)),
    );
    check(
        &[item(1, 0, "a"), item(2, 0, "b"), item(1, 0, "c")],
        &numbers,
        "",
        "1) a\n2) b\n3) c",
    );
    check(
        &[item(1, 0, "a"), item(3, 0, "b"), item(3, 0, "c")],
        &numbers,
        "",
        "1) a\n5) b\n6) c",
    );
    check(
        &[item(4, 0, "a"), item(4, 0, "b")],
        &numbers,
        "",
        "Annex A: a\nAnnex B: b",
    );
}

#[test]
fn levels_restart_and_write_as_they_say() {
    let never = level(1, "decimal", "%2.", "<w:lvlRestart w:val=\"0\"/>");
    let legal = level(1, "decimal", "%1.%2", "<w:isLgl/>");
    let roman = level(0, "upperRoman", "Article %1", "");
    for (levels, expected) in [
        (
            level(0, "decimal", "%1.", "") + &never,
            "1. a\n  1. b\n2. c\n  2. d",
        ),
        (
            roman.clone() + &legal,
            "Article I a\n  1.1 b\nArticle II c\n  2.1 d",
        ),
        (
            roman + &level(1, "none", "", ""),
            "Article I a\n\nb\n\nArticle II c\n\nd",
        ),
        (
            level(0, "bullet", "\u{F0B7}", "") + &level(1, "bullet", "o", ""),
            "- a\n  - b\n- c\n  - d",
        ),
        // The second level is not described.
        (
            level(
                0,
                "bullet",
                "\u{F0A8}",
                "<w:rPr><w:rFonts w:ascii=\"Wingdings\"/></w:rPr>",
            ),
            "- ☐ a\n\nb\n\n- ☐ c\n\nd",
        ),
    ] {
        let numbers = numbering(&(abstract_list(0, &levels) + &list(1, 0, "")));
        let body = [
            item(1, 0, "a"),
            item(1, 1, "b"),
            item(1, 0, "c"),
            item(1, 1, "d"),
        ];
        check(&body, &numbers, "", expected);
    }
}

#[test]
fn items_without_words_count_and_are_not_shown() {
    let numbers = numbering(&(abstract_list(0, &level(0, "decimal", "%1.", "")) + &list(1, 0, "")));
    check(
        &[item(1, 0, "a"), item(1, 0, ""), item(1, 0, "c")],
        &numbers,
        "",
        "1. a\n3. c",
    );
    check(
        &[item(0, 0, "none"), item(7, 0, "unknown")],
        &numbers,
        "",
        "none\n\n- unknown",
    );
}

#[test]
fn headings_have_their_numbers() {
    let levels = level(0, "decimal", "%1", "<w:pStyle w:val=\"H1\"/>")
        + &level(1, "decimal", "%1.%2", "<w:pStyle w:val=\"H2\"/>");
    let numbers = numbering(&(abstract_list(0, &levels) + &list(3, 0, "")));
    let list = "<w:numPr><w:numId w:val=\"3\"/></w:numPr>";
    let none = "<w:numPr><w:numId w:val=\"0\"/></w:numPr>";
    let styles = style(
        "H1",
        &format!("<w:name w:val=\"heading 1\"/><w:pPr>{list}</w:pPr>"),
    ) + &style(
        "H2",
        &format!("<w:name w:val=\"Heading 2\"/><w:pPr>{list}</w:pPr>"),
    ) + &style("Own", "<w:name w:val=\"Mine\"/><w:basedOn w:val=\"H2\"/>")
        + &style(
            "Bare",
            &format!("<w:name w:val=\"Bare\"/><w:basedOn w:val=\"H1\"/><w:pPr>{none}</w:pPr>"),
        );
    check(
        &[
            styled("H1", "Scope"),
            styled("H2", "Terms"),
            styled("Own", "Words"),
            styled("Bare", "Preface"),
            styled("H1", "Rules"),
            styled("H2", "First"),
        ],
        &numbers,
        &styles,
        "# 1 Scope\n\n## 1.1 Terms\n\n## 1.2 Words\n\n# Preface\n\n# 2 Rules\n\n## 2.1 First",
    );
}

#[test]
fn a_list_may_be_that_of_a_style() {
    let numbers = numbering(
        &(abstract_list(0, "<w:numStyleLink w:val=\"Steps\"/>")
            + &abstract_list(1, &level(0, "decimal", "Step %1:", ""))
            + &list(1, 0, "")
            + &list(2, 1, "")),
    );
    let styles = style(
        "Steps",
        "<w:pPr><w:numPr><w:numId w:val=\"2\"/></w:numPr></w:pPr>",
    ) + &style(
        "Number",
        "<w:name w:val=\"List Number\"/><w:pPr><w:numPr><w:numId w:val=\"2\"/></w:numPr></w:pPr>",
    );
    check(
        &[item(1, 0, "a"), styled("Number", "b")],
        &numbers,
        &styles,
        "Step 1: a\nStep 2: b",
    );
}

#[test]
fn styles_are_headings_by_level_name_or_base() {
    let outline = |at: usize| format!("<w:pPr><w:outlineLvl w:val=\"{at}\"/></w:pPr>");
    let styles = [
        style("T", "<w:name w:val=\"Title\"/>"),
        style("H", "<w:name w:val=\"heading 2,Zwischentitel\"/>"),
        style("O", &format!("<w:name w:val=\"Own\"/>{}", outline(2))),
        style("B", "<w:name w:val=\"Based\"/><w:basedOn w:val=\"O\"/>"),
        style(
            "N",
            &format!(
                "<w:name w:val=\"Body\"/><w:basedOn w:val=\"O\"/>{}",
                outline(9)
            ),
        ),
        style("Loop", "<w:basedOn w:val=\"Loop2\"/>"),
        style("Loop2", "<w:basedOn w:val=\"Loop\"/>"),
    ];
    let direct = |at: usize, style: &str| {
        format!(
            "<w:p><w:pPr><w:pStyle w:val=\"{style}\"/><w:outlineLvl w:val=\"{at}\"/></w:pPr>{}</w:p>",
            r("x")
        )
    };
    for (paragraph, expected) in [
        (styled("T", "x"), "# x"),
        (styled("H", "x"), "## x"),
        (styled("O", "x"), "### x"),
        (styled("B", "x"), "### x"),
        (styled("N", "x"), "x"),
        (styled("Loop", "x"), "x"),
        (styled("None", "x"), "x"),
        (direct(0, "N"), "# x"),
        (direct(9, "H"), "x"),
        (direct(77, "N"), "x"),
    ] {
        check(&[paragraph], "<w:numbering/>", &styles.concat(), expected);
    }
}

#[test]
fn hostile_numbers_are_read() {
    let long = "x%1".repeat(100_000);
    let levels = level(0, "decimal", &long, "")
        + &level(99, "decimal", "%9", "")
        + "<w:lvl w:ilvl=\"no\"/><w:lvl/>";
    let starts = "<w:lvlOverride w:ilvl=\"0\"><w:startOverride w:val=\"4294967295\"/></w:lvlOverride>\
        <w:lvlOverride w:ilvl=\"12\"><w:startOverride w:val=\"1\"/></w:lvlOverride>";
    let numbers = numbering(
        &(abstract_list(0, &levels)
            + &abstract_list(1, "<w:numStyleLink w:val=\"S\"/>")
            + &list(1, 0, starts)
            + &list(2, 1, "")
            + &list(3, 55, "")),
    );
    let styles = format!(
        "<w:styles>{}</w:styles>",
        style(
            "S",
            "<w:pPr><w:numPr><w:numId w:val=\"2\"/></w:numPr></w:pPr>"
        )
    );
    let body = [
        item(1, 0, "a"),
        item(1, 0, "b"),
        item(1, 4_000, "c"),
        item(2, 0, "d"),
        item(3, 0, "e"),
    ];
    let parts = [
        ("word/numbering.xml", numbers.as_str()),
        ("word/styles.xml", &styles),
    ];
    let text = text_with(&body.concat(), &parts);
    assert!(text.len() < 1_000 && text.contains("e"), "{text}");
}
