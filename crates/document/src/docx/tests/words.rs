//! Words: text boxes, changes, symbols, scripts, fields, notes, tables.

use super::*;

fn boxed(content: &str) -> String {
    format!("<w:txbxContent>{content}</w:txbxContent>")
}

#[test]
fn a_text_box_leaves_the_text_around_it_whole() {
    let drawing = |content: &str| {
        format!(
            "<w:r><w:drawing><wps:txbx>{}</wps:txbx></w:drawing></w:r>",
            boxed(content)
        )
    };
    let item = "<w:pPr><w:numPr><w:numId w:val=\"1\"/></w:numPr></w:pPr>";
    let table = format!(
        "<w:tbl><w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr></w:tbl>",
        p("x"),
        p("y")
    );
    for (body, expected) in [
        (
            format!(
                "<w:p>{}{}{}</w:p>",
                r("One "),
                drawing(&p("box")),
                r("two.")
            ),
            "One two.\n\nbox",
        ),
        (
            format!(
                "<w:p>{}{}{}</w:p>",
                drawing(&p("a")),
                drawing(&p("b")),
                r("Text")
            ),
            "Text\n\na\n\nb",
        ),
        (
            format!(
                "<w:p>{item}{}{}</w:p>{}",
                r("Item"),
                drawing(&p("box")),
                p("End")
            ),
            "- Item\n\nbox\n\nEnd",
        ),
        // A box in a box, a list and a table in one, and a box with nothing around it.
        (
            format!(
                "<w:p>{}{}</w:p>",
                r("Outer"),
                drawing(&format!(
                    "<w:p>{}{}</w:p>",
                    r("middle"),
                    drawing(&p("inner"))
                ))
            ),
            "Outer\n\nmiddle\n\ninner",
        ),
        (
            format!(
                "<w:p>{}</w:p>",
                drawing(&format!(
                    "<w:p>{item}{}</w:p>{table}{}",
                    r("one"),
                    p("last")
                ))
            ),
            "- one\n\n| x | y |\n| --- | --- |\n\nlast",
        ),
        // Paragraphs of drawings are other elements with the same names.
        (
            format!(
                "<w:p>{}<w:r><w:drawing><a:p><a:r><a:t>shape</a:t></a:r></a:p></w:drawing></w:r>\
                     {}</w:p>",
                r("One "),
                r("two.")
            ),
            "One two.\n\nshape",
        ),
        (
            format!(
                "<w:p>{}<w:r><w:pict><v:textpath string=\"DRAFT &amp; more\"/></w:pict></w:r></w:p>",
                r("Text")
            ),
            "Text\n\nDRAFT & more",
        ),
    ] {
        assert_eq!(text(&body), expected);
    }
}

#[test]
fn of_alternatives_the_first_with_text_is_read() {
    let alternate = |inner: &str| {
        format!(
            "<w:p>{}<w:r><mc:AlternateContent>{inner}</mc:AlternateContent></w:r></w:p>",
            r("A")
        )
    };
    let (choice, fallback) = (
        format!("<mc:Choice>{}</mc:Choice>", boxed(&p("new"))),
        format!("<mc:Fallback>{}</mc:Fallback>", boxed(&p("old"))),
    );
    let empty = "<mc:Choice Requires=\"x\"><x:ink/></mc:Choice>";
    for (inner, expected) in [
        (format!("{choice}{fallback}"), "A\n\nnew"),
        (format!("{choice}{choice}{fallback}"), "A\n\nnew"),
        (format!("{empty}{choice}{fallback}"), "A\n\nnew"),
        (format!("{empty}{fallback}"), "A\n\nold"),
        (fallback, "A\n\nold"),
        (String::new(), "A"),
    ] {
        assert_eq!(text(&alternate(&inner)), expected);
    }
}

#[test]
fn changes_are_accepted() {
    let deleted = "<w:del><w:r><w:delText>no</w:delText></w:r></w:del>";
    let mark = |name: &str| format!("<w:pPr><w:rPr><w:{name}/></w:rPr></w:pPr>");
    for (body, expected) in [
        (
            format!(
                "<w:p>{}{deleted}<w:ins>{}</w:ins></w:p>",
                r("One "),
                r("two")
            ),
            "One two",
        ),
        (
            format!(
                "<w:p><w:moveFrom>{}</w:moveFrom></w:p>{}<w:p><w:moveTo>{}</w:moveTo></w:p>",
                r("moved"),
                p("other"),
                r("moved")
            ),
            "other\n\nmoved",
        ),
        // The end of a paragraph was deleted: both are one.
        (
            format!(
                "<w:p>{}{}</w:p><w:p>{}</w:p>",
                mark("del"),
                r("One "),
                r("two")
            ),
            "One two",
        ),
        (format!("<w:p>{}{}</w:p>", mark("del"), r("last")), "last"),
        (
            format!(
                "<w:tbl><w:tr><w:tc><w:p>{}{}</w:p></w:tc><w:tc>{}</w:tc></w:tr></w:tbl>",
                mark("moveFrom"),
                r("cell"),
                p("other")
            ),
            "| cell | other |\n| --- | --- |",
        ),
        // What the paragraph was before counts for nothing.
        (
            format!(
                "<w:p><w:pPr><w:pPrChange><w:pPr><w:outlineLvl w:val=\"0\"/><w:numPr><w:numId \
                     w:val=\"1\"/></w:numPr></w:pPr></w:pPrChange></w:pPr>{}</w:p>",
                r("Plain")
            ),
            "Plain",
        ),
        (
            "<w:p><w:r><w:rPr><w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange></w:rPr>\
                     <w:t>Shown</w:t></w:r></w:p>"
                .into(),
            "Shown",
        ),
        (
            format!(
                "<w:tbl><w:tr><w:tc>{0}</w:tc><w:tc>{0}</w:tc></w:tr><w:tr><w:trPr><w:del/></w:trPr>\
                     <w:tc>{1}</w:tc><w:tc>{1}</w:tc></w:tr></w:tbl>",
                p("a"),
                p("gone")
            ),
            "| a | a |\n| --- | --- |",
        ),
    ] {
        assert_eq!(text(&body), expected);
    }
}

#[test]
fn symbols_are_read_and_unknown_ones_told() {
    let sym =
        |font: &str, code: &str| format!("<w:r><w:sym w:font=\"{font}\" w:char=\"{code}\"/></w:r>");
    let in_font = |font: &str, text: &str| {
        format!("<w:r><w:rPr><w:rFonts w:ascii=\"{font}\"/></w:rPr><w:t>{text}</w:t></w:r>")
    };
    for (inner, expected) in [
        (sym("Wingdings", "F0FE") + &r(" yes"), "☒ yes"),
        (sym("Wingdings 2", "F0A3") + &r(" no"), "☐ no"),
        (sym("Symbol", "F0A3") + &r("5"), "≤5"),
        (sym("Symbol", "B1") + &r("5"), "±5"),
        (in_font("Symbol", "m") + &r("m"), "μm"),
        (in_font("Wingdings", "\u{F0FC}") + &r(" done"), "✓ done"),
        (in_font("Arial", "m"), "m"),
        (sym("Segoe UI Symbol", "2610") + &r(" no"), "☐ no"),
        (r("x") + &sym("", "zz"), "x"),
    ] {
        assert_eq!(text(&format!("<w:p>{inner}</w:p>")), expected);
    }
    let unknown = document(&format!(
        "<w:p>{}{}</w:p>",
        r("a"),
        sym("Wingdings 2", "F021")
    ));
    let extracted = extract(&unknown, "a.docx").unwrap();
    assert_eq!(extracted.text, "a\u{FFFD}");
    assert_eq!(
        extracted.warnings[0].message,
        "1 sign of a symbol font was replaced with U+FFFD"
    );
}

#[test]
fn fields_show_their_result() {
    let mark = |kind: &str| format!("<w:r><w:fldChar w:fldCharType=\"{kind}\"/></w:r>");
    let instruction = |text: &str| format!("<w:r><w:instrText>{text}</w:instrText></w:r>");
    let field = |instructions: &str, result: &str| {
        [
            &mark("begin"),
            instructions,
            &mark("separate"),
            &r(result),
            &mark("end"),
        ]
        .concat()
    };
    let form = |data: &str| {
        format!(
            "<w:r><w:fldChar w:fldCharType=\"begin\"><w:ffData>{data}</w:ffData></w:fldChar></w:r>\
                 {}{}",
            instruction("FORM"),
            mark("end")
        )
    };
    let box_of = |inner: &str| form(&format!("<w:checkBox><w:sizeAuto/>{inner}</w:checkBox>"));
    for (inner, expected) in [
        (field(&instruction("PAGEREF x"), "12"), "12"),
        (
            field(
                &(instruction("IF ")
                    + &field(&instruction("MERGEFIELD a"), "5")
                    + &instruction("= 5")),
                "yes",
            ),
            "yes",
        ),
        (
            format!("<w:fldSimple w:instr=\"DATE\">{}</w:fldSimple>", r("May")),
            "May",
        ),
        (mark("begin") + &instruction("never ends") + &r("x"), "x"),
        (
            box_of("<w:default w:val=\"0\"/><w:checked/>") + &r(" a"),
            "☒ a",
        ),
        (
            box_of("<w:default w:val=\"1\"/><w:checked w:val=\"0\"/>") + &r(" a"),
            "☐ a",
        ),
        (box_of("<w:default w:val=\"0\"/>") + &r(" a"), "☐ a"),
        (
            form(
                "<w:ddList><w:result w:val=\"1\"/><w:listEntry w:val=\"Oslo\"/>\
                  <w:listEntry w:val=\"Bergen\"/></w:ddList>",
            ),
            "Bergen",
        ),
    ] {
        let body = format!("<w:p>{inner}</w:p>{}", p("next"));
        assert_eq!(text(&body), format!("{expected}\n\nnext"));
    }
}

#[test]
fn content_controls_are_seen_through_everywhere() {
    let control = |inner: &str| {
        format!(
            "<w:sdt><w:sdtPr><w:rPr><w:vanish/></w:rPr><w:alias w:val=\"no\"/></w:sdtPr>\
                 <w:sdtContent>{inner}</w:sdtContent></w:sdt>"
        )
    };
    let row = |inner: &str| format!("<w:tr>{inner}</w:tr>");
    let cell = |text: &str| format!("<w:tc>{}</w:tc>", p(text));
    let body = [
        control(&p("block")),
        format!("<w:p>{}{}</w:p>", r("in "), control(&r("line"))),
        format!(
            "<w:tbl>{}{}</w:tbl>",
            row(&(cell("a") + &control(&cell("b")))),
            control(&row(
                &(cell("c") + &format!("<w:tc>{}</w:tc>", control(&p("d"))))
            ))
        ),
    ];
    assert_eq!(
        text(&body.concat()),
        "block\n\nin line\n\n| a | b |\n| --- | --- |\n| c | d |"
    );
}

#[test]
fn notes_follow_the_block_that_refers_to_them_once() {
    let refer = |kind: &str, id: &str| format!("<w:r><w:{kind}Reference w:id=\"{id}\"/></w:r>");
    let footnotes = format!(
        "<w:footnotes><w:footnote w:type=\"separator\" w:id=\"-1\">{0}</w:footnote>\
         <w:footnote w:id=\"2\">{1}{2}</w:footnote><w:footnote w:id=\"3\">{3}</w:footnote>\
         </w:footnotes>",
        p("line"),
        p("First note"),
        p("of two."),
        p("Own."),
    );
    let endnotes = format!(
        "<w:endnotes><w:endnote w:id=\"2\">{}</w:endnote></w:endnotes>",
        p("End note.")
    );
    let own = "<w:r><w:footnoteReference w:customMarkFollows=\"1\" w:id=\"3\"/><w:t>*</w:t></w:r>";
    let body = [
        format!(
            "<w:p>{}{}{}</w:p>",
            r("Text"),
            refer("footnote", "2"),
            r(".")
        ),
        format!(
            "<w:tbl><w:tr><w:tc><w:p>{}{}</w:p></w:tc><w:tc>{}</w:tc></w:tr></w:tbl>",
            r("a"),
            refer("endnote", "2"),
            p("b")
        ),
        format!(
            "<w:p>{}{}{}</w:p>",
            r("Again"),
            refer("footnote", "2"),
            refer("footnote", "9")
        ),
        format!("<w:p>{}{own}</w:p>", r("Mark")),
    ];
    assert_eq!(
        text_with(
            &body.concat(),
            &[
                ("word/footnotes.xml", &footnotes),
                ("word/endnotes.xml", &endnotes)
            ]
        ),
        "Text[^1].\n\n[^1]: First note of two.\n\n| a[^i] | b |\n| --- | --- |\n\n[^i]: End note.\n\n\
         Again[^1]\n\nMark*\n\nOwn."
    );
}

#[test]
fn merged_cells_keep_their_columns() {
    let cell = |properties: &str, text: &str| {
        format!("<w:tc><w:tcPr>{properties}</w:tcPr>{}</w:tc>", p(text))
    };
    let table = |rows: &[String]| {
        let rows: String = rows
            .iter()
            .map(|row| format!("<w:tr>{row}</w:tr>"))
            .collect();
        format!("<w:tbl>{rows}</w:tbl>")
    };
    let wide = |columns: &str| format!("<w:gridSpan w:val=\"{columns}\"/>");
    let (top, below) = ("<w:vMerge w:val=\"restart\"/>", "<w:vMerge/>");
    for (rows, expected) in [
        (
            vec![
                cell(&wide("2"), "Head") + &cell("", "C"),
                cell("", "1") + &cell("", "2") + &cell("", "3"),
            ],
            "| Head | | C |\n| --- | --- | --- |\n| 1 | 2 | 3 |",
        ),
        (
            vec![
                cell(&(wide("2") + top), "Both") + &cell("", "1"),
                cell(&(wide("2") + below), "") + &cell("", "2"),
                cell(&(wide("2") + "<w:vMerge w:val=\"continue\"/>"), "") + &cell("", "3"),
            ],
            "| Both | | 1 |\n| --- | --- | --- |\n| Both | | 2 |\n| Both | | 3 |",
        ),
        (
            vec![
                cell("", "a") + &cell("", "b"),
                "<w:trPr><w:gridBefore w:val=\"1\"/></w:trPr>".to_owned() + &cell("", "right"),
            ],
            "| a | b |\n| --- | --- |\n| | right |",
        ),
        (
            vec![
                cell("<w:hMerge w:val=\"restart\"/>", "old")
                    + &cell("<w:hMerge/>", "")
                    + &cell("", "c"),
                cell("", "1") + &cell("", "2") + &cell("", "3"),
            ],
            "| old | | c |\n| --- | --- | --- |\n| 1 | 2 | 3 |",
        ),
        (vec![cell("", "# frame")], "\\# frame"),
        (
            vec![cell(&wide("4000000000"), "x") + &cell(&wide("no"), "y")],
            &format!("| x |{} y |\n|{}", " |".repeat(63), " --- |".repeat(65)),
        ),
    ] {
        assert_eq!(text(&table(&rows)), expected);
    }
}

#[test]
fn long_cells_are_not_repeated_without_end() {
    let cell = |merge: &str, text: &str| {
        format!(
            "<w:tc><w:tcPr><w:vMerge w:val=\"{merge}\"/></w:tcPr>{}</w:tc>",
            p(text)
        )
    };
    let long = "word ".repeat(20_000);
    let mut rows = format!(
        "<w:tr>{}<w:tc>{}</w:tc></w:tr>",
        cell("restart", &long),
        p("x")
    );
    for _ in 0..1_000 {
        rows += &format!(
            "<w:tr>{}<w:tc>{}</w:tc></w:tr>",
            cell("continue", ""),
            p("x")
        );
    }
    assert!(text(&format!("<w:tbl>{rows}</w:tbl>")).len() < 2 << 20);
}

#[test]
fn formulas_scripts_and_readings_are_in_the_line() {
    let raised = |text: &str| {
        format!("<w:r><w:rPr><w:vertAlign w:val=\"superscript\"/></w:rPr><w:t>{text}</w:t></w:r>")
    };
    let formula = "<m:oMathPara><m:oMathParaPr><m:jc m:val=\"left\"/></m:oMathParaPr><m:oMath><m:r>\
        <w:rPr><w:rFonts w:ascii=\"Cambria Math\"/></w:rPr><m:t>E=m</m:t></m:r><m:sSup><m:sSupPr/>\
        <m:e><m:r><m:t>c</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:oMath>\
        </m:oMathPara>";
    let ruby = "<w:r><w:ruby><w:rubyPr/><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt><w:rubyBase><w:r>\
        <w:t>東京</w:t></w:r></w:rubyBase></w:ruby></w:r>";
    for (inner, expected) in [
        (r("10") + &raised("6") + &r(" N"), "10^6 N"),
        (r("the 1") + &raised("st"), "the 1st"),
        (r("so ") + formula, "so E=mc^2"),
        (ruby.to_owned() + &r("へ"), "東京(とうきょう)へ"),
        (
            "<w:r><w:t xml:space=\"preserve\">a\n b</w:t><w:tab/><w:t>c</w:t><w:br/><w:t>d</w:t></w:r>".into(),
            "a  b\tc\nd",
        ),
    ] {
        assert_eq!(text(&format!("<w:p>{inner}</w:p>")), expected);
    }
}

#[test]
fn many_fields_in_each_other_take_little_time() {
    let begin = "<w:fldChar w:fldCharType=\"begin\"/><w:fldChar w:fldCharType=\"separate\"/>";
    let body = format!("<w:p>{}</w:p>", (begin.to_owned() + &r("x")).repeat(50_000));
    assert_eq!(text(&body).len(), 50_000);
}
