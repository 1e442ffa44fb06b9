use super::*;
use crate::package::tests::packed;

fn content(body: &str, styles: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><office:document-content \
         xmlns:office=\"urn:oasis:names:tc:opendocument:xmlns:office:1.0\">\
         <office:automatic-styles>{styles}</office:automatic-styles>\
         <office:body>{body}</office:body></office:document-content>"
    )
}

const META: &str = "<office:document-meta><office:meta><dc:title>Tea &amp; time</dc:title>\
    <meta:initial-creator>Ann</meta:initial-creator><dc:creator>Bob</dc:creator></office:meta>\
    </office:document-meta>";

fn file(xml: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut files: Vec<(&str, &[u8])> = vec![
        ("mimetype", b"application/vnd.oasis.opendocument.text"),
        ("content.xml", xml.as_bytes()),
    ];
    files.extend(more.iter().map(|(name, xml)| (*name, xml.as_bytes())));
    packed(&files)
}

fn read_with(body: &str, styles: &str, more: &[(&str, &str)]) -> ExtractedDocument {
    let body = format!("<office:text>{body}</office:text>");
    extract(&file(&content(&body, styles), more), "a.odt").unwrap()
}

fn text(body: &str) -> String {
    read_with(body, "", &[]).text
}

#[test]
fn a_text_has_headings_and_paragraphs_with_their_spaces() {
    let body = "<text:h text:outline-level=\"1\">Plan</text:h>\
        <text:p>One  \n two<text:s text:c=\"2\"/>three<text:tab/>four<text:line-break/>five\
        </text:p>\
        <text:p><text:span><text:s/>connective</text:span> prose<text:bookmark text:name=\"b\"/> \
        after <text:a xlink:href=\"x\">a link</text:a> and <text:meta>meta</text:meta>.</text:p>\
        <!-- a comment --><text:section><text:p># no heading</text:p></text:section>\
        <text:h text:outline-level=\"2\">Part</text:h><text:p/>\
        <text:p>Page <text:page-number>7</text:page-number>, \
        <office:annotation><text:p>remark</text:p></office:annotation>end</text:p>";
    assert_eq!(
        text(body),
        "# Plan\n\nOne two  three\tfour\nfive\n\nconnective prose after a link and meta.\n\n\
         \\# no heading\n\n## Part\n\nPage 7, end"
    );
}

#[test]
fn the_properties_give_title_and_author() {
    let read = read_with("<text:p>x</text:p>", "", &[("meta.xml", META)]);
    assert_eq!(read.title.text, "Tea & time");
    assert_eq!(read.metadata["author"], "Ann");
    let styles = "<style:style style:name=\"P1\" style:family=\"paragraph\" \
        style:parent-style-name=\"Title\"/>";
    let read = read_with("<text:p text:style-name=\"P1\">Tea</text:p>", styles, &[]);
    assert_eq!((&*read.text, &*read.title.text), ("# Tea", "Tea"));
}

#[test]
fn lists_are_counted_as_their_styles_say() {
    let level = |n: u32, format: &str, more: &str| {
        format!(
            "<text:list-level-style-number text:level=\"{n}\" \
             style:num-format=\"{format}\" {more}/>"
        )
    };
    let styles = format!(
        "<text:list-style style:name=\"L\">{}{}</text:list-style>\
         <text:list-style style:name=\"B\"><text:list-level-style-bullet text:level=\"1\" \
         text:bullet-char=\"•\"/></text:list-style>",
        level(1, "1", "style:num-suffix=\".\""),
        level(2, "a", "style:num-suffix=\")\" text:display-levels=\"2\""),
    );
    let item = |inner: &str| format!("<text:list-item>{inner}</text:list-item>");
    let p = |words: &str| format!("<text:p>{words}</text:p>");
    let list = |more: &str, inner: &str| format!("<text:list {more}>{inner}</text:list>");
    let deep = list("", &(item(&p("a")) + &item(&p("b"))));
    let body = list(
        "xml:id=\"one\" text:style-name=\"L\"",
        &(item(&(p("first") + &p("more") + &deep)) + &item(&(p("second") + &deep))),
    ) + &p("between")
        + &list(
            "text:style-name=\"L\" text:continue-list=\"one\"",
            &item(&p("third")),
        )
        + &list("text:style-name=\"L\"", &item(&p("again")))
        + &list("text:style-name=\"B\"", &item(&p("point")))
        + &list(
            "text:style-name=\"L\"",
            "<text:list-item text:start-value=\"7\"><text:p>seven</text:p></text:list-item>",
        );
    assert_eq!(
        read_with(&body, &styles, &[]).text,
        "1. first\n\nmore\n\n  1.a) a\n  1.b) b\n2. second\n  2.a) a\n  2.b) b\n\nbetween\n\n\
         3. third\n1. again\n- point\n7. seven"
    );
}

#[test]
fn headings_are_numbered_by_the_outline() {
    let styles = "<office:styles><text:outline-style style:name=\"Outline\">\
        <text:outline-level-style text:level=\"1\" style:num-format=\"1\"/>\
        <text:outline-level-style text:level=\"2\" style:num-format=\"1\" \
        text:display-levels=\"2\"/></text:outline-style></office:styles>";
    let body = "<text:h text:outline-level=\"1\">A</text:h>\
        <text:h text:outline-level=\"2\">B</text:h><text:h text:outline-level=\"2\">C</text:h>\
        <text:h text:outline-level=\"1\" text:is-list-header=\"true\">D</text:h>\
        <text:h text:outline-level=\"1\">E</text:h>";
    let read = read_with(body, "", &[("styles.xml", styles)]);
    assert_eq!(read.text, "# 1 A\n\n## 1.1 B\n\n## 1.2 C\n\n# D\n\n# 2 E");
}

#[test]
fn deleted_and_hidden_texts_are_left_out() {
    let body = "<text:tracked-changes><text:changed-region xml:id=\"c1\"><text:deletion>\
        <text:p>gone</text:p></text:deletion></text:changed-region>\
        <text:changed-region xml:id=\"c2\"><text:insertion/></text:changed-region>\
        </text:tracked-changes>\
        <text:p>kept <text:change text:change-id=\"c1\"/>and \
        <text:change-start text:change-id=\"c2\"/>new<text:change-end text:change-id=\"c2\"/>, not \
        <text:change-start text:change-id=\"c1\"/>old<text:change-end text:change-id=\"c1\"/>this\
        </text:p><text:p>See <text:span text:style-name=\"T1\">secret</text:span>nothing</text:p>\
        <text:section text:display=\"none\"><text:p>closed</text:p></text:section>\
        <text:p><text:hidden-paragraph text:is-hidden=\"true\"/>away</text:p>";
    let styles = "<style:style style:name=\"T1\" style:family=\"text\"><style:text-properties \
        text:display=\"none\"/></style:style>";
    let read = read_with(body, styles, &[]);
    assert_eq!(read.text, "kept and new, not this\n\nSee nothing");
    assert_eq!(read.warnings[0].message, "3 hidden texts were removed");
}

#[test]
fn tables_repeat_cells_over_rows() {
    let cell = |more: &str, words: &str| {
        format!("<table:table-cell {more}><text:p>{words}</text:p></table:table-cell>")
    };
    let row = |cells: &str| format!("<table:table-row>{cells}</table:table-row>");
    let covered = "<table:covered-table-cell/>";
    let body = "<table:table><table:table-column/><table:table-header-rows>".to_owned()
        + &row(&(cell("table:number-columns-spanned=\"2\"", "wide") + covered + &cell("", "c")))
        + "</table:table-header-rows>"
        + &row(&(cell("table:number-rows-spanned=\"2\"", "k") + &cell("", "1|2") + &cell("", "3")))
        + &row(&(covered.to_owned() + &cell("table:number-columns-repeated=\"2\"", "same")))
        + "</table:table>";
    assert_eq!(
        text(&body),
        "| wide | | c |\n| --- | --- | --- |\n| k | 1\\|2 | 3 |\n| k | same | same |"
    );
}

#[test]
fn notes_boxes_formulas_charts_and_forms_are_read() {
    let body = "<office:forms><form:form><form:checkbox form:id=\"f1\" form:label=\"Agree\" \
        form:current-state=\"checked\"/></form:form></office:forms>\
        <text:p>Text<text:note text:note-class=\"footnote\"><text:note-citation>1\
        </text:note-citation><text:note-body><text:p>A note.</text:p></text:note-body></text:note> \
        with <draw:frame><draw:object xlink:href=\"./Object 1\"/><draw:image \
        xlink:href=\"./ObjectReplacements/Object 1\"/></draw:frame> and x<text:span \
        text:style-name=\"T2\">2</text:span>.</text:p>\
        <text:p><draw:frame><draw:text-box><text:p>In a box</text:p></draw:text-box></draw:frame>\
        Beside</text:p><text:p><draw:frame><draw:object xlink:href=\"./Object 2\"/></draw:frame>\
        <draw:control draw:control=\"f1\"/></text:p>\
        <text:p><draw:frame><draw:image/><svg:title>Cat</svg:title><svg:desc>A black cat\
        </svg:desc></draw:frame><draw:frame><draw:object-ole/></draw:frame></text:p>";
    let styles = "<style:style style:name=\"T2\" style:family=\"text\"><style:text-properties \
        style:text-position=\"super 58%\"/></style:style>";
    let formula = "<!DOCTYPE math:math><math:math xmlns:math=\"x\"><math:semantics><math:mfrac>\
        <math:mrow><math:mi>a</math:mi><math:mo>+</math:mo><math:mi>b</math:mi></math:mrow>\
        <math:mn>2</math:mn></math:mfrac><math:annotation math:encoding=\"StarMath 5.0\">{a+b} \
        over 2</math:annotation></math:semantics></math:math>";
    let chart = "<office:document-content><office:body><office:chart><chart:chart>\
        <chart:title><text:p>Sales</text:p></chart:title><table:table><table:table-row>\
        <table:table-cell><text:p>k</text:p></table:table-cell><table:table-cell><text:p>v</text:p>\
        </table:table-cell></table:table-row></table:table></chart:chart></office:chart>\
        </office:body></office:document-content>";
    let more = [
        ("Object 1/content.xml", formula),
        ("Object 2/content.xml", chart),
    ];
    let read = read_with(body, styles, &more);
    assert_eq!(
        read.text,
        "Text[^1] with (a + b)/2 and x^2.\n\n[^1]: A note.\n\nBeside\n\nIn a box\n\nSales\n\n\
         | k | v |\n| --- | --- |\n\n☒ Agree\n\nA black cat"
    );
    assert_eq!(read.warnings[0].message, "1 embedded file was left out");
}

#[test]
fn slides_are_sections_with_their_notes() {
    let page = |name: &str, style: &str, inner: &str| {
        format!("<draw:page draw:name=\"{name}\" draw:style-name=\"{style}\">{inner}</draw:page>")
    };
    let shape = |class: &str, inner: &str| {
        format!(
            "<draw:frame presentation:class=\"{class}\"><draw:text-box>{inner}</draw:text-box>\
             </draw:frame>"
        )
    };
    let one = shape(
        "outline",
        "<text:list><text:list-item><text:p>Point</text:p><text:list><text:list-item>\
         <text:p>Deeper</text:p></text:list-item></text:list></text:list-item></text:list>",
    ) + &shape("title", "<text:p>Plan</text:p>")
        + "<draw:custom-shape><text:p>Free</text:p><draw:enhanced-geometry/></draw:custom-shape>"
        + &shape("footer", "<text:p>foot</text:p>")
        + "<presentation:notes><draw:page-thumbnail/>"
        + &shape("notes", "<text:p>Say it.</text:p>")
        + "</presentation:notes>";
    let two = shape("title", "<text:p>Hidden</text:p>");
    let three = shape("title", "<text:p>The end</text:p>");
    let styles = "<style:style style:name=\"dp2\" style:family=\"drawing-page\">\
        <style:drawing-page-properties presentation:visibility=\"hidden\"/></style:style>";
    let body = format!(
        "<office:presentation>{}{}{}</office:presentation>",
        page("1", "dp1", &one),
        page("2", "dp2", &two),
        page("3", "dp1", &three)
    );
    let read = crate::slides::extract(&file(&content(&body, styles), &[]), "a.odp").unwrap();
    assert_eq!(
        read.text,
        "# Plan\n\n- Point\n  - Deeper\n\nFree\n\nSay it.\n\n# The end"
    );
    assert_eq!(read.warnings[0].message, "1 hidden slide was left out");
}

#[test]
fn a_file_of_one_part_is_read() {
    let xml = content("<office:text><text:p>flat</text:p></office:text>", "");
    let xml = xml.replace("<office:automatic", &format!("{META}<office:automatic"));
    let read = extract(xml.as_bytes(), "a.fodt").unwrap();
    assert_eq!((&*read.text, &*read.title.text), ("flat", "Tea & time"));
}

#[test]
fn damaged_encrypted_and_hostile_files_are_errors_or_read() {
    let message = |bytes: &[u8]| extract(bytes, "a.odt").unwrap_err().message;
    let locked = file(
        "\u{1}\u{2}",
        &[("META-INF/manifest.xml", "<manifest:encryption-data/>")],
    );
    assert_eq!(message(&locked), "the text document is encrypted");
    assert_eq!(
        message(&packed(&[("a", b"x")])),
        "the text document is malformed: it has no content.xml"
    );
    let whole = file(
        &content("<office:text><text:p>x</text:p></office:text>", ""),
        &[],
    );
    for cut in 0..whole.len() {
        let _ = extract(&whole[..cut], "a.odt");
        let mut damaged = whole.clone();
        damaged[cut] ^= 0x15;
        let _ = extract(&damaged, "a.odt");
    }
    for tag in [
        "text:p",
        "text:span",
        "text:list",
        "text:list-item",
        "table:table",
        "table:table-cell",
        "draw:frame",
        "text:note",
        "draw:g",
        "math",
    ] {
        let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
        let deep = begin.repeat(50_000) + "<text:p>x</text:p>" + &end.repeat(50_000);
        let body = format!("<office:text>{deep}</office:text>");
        let _ = extract(&file(&content(&body, ""), &[]), "a.odt");
    }
    let claimed = "<table:table><table:table-row table:number-rows-repeated=\"1000000000\">\
        <table:table-cell table:number-columns-repeated=\"1000000000\"><text:p>x<text:s \
        text:c=\"1000000000\"/>y</text:p></table:table-cell></table:table-row></table:table>";
    assert!(text(claimed).len() < 1 << 22);
    let cut = "<office:document-content><office:body><office:text><text:p>x</text:p>";
    assert!(message(&file(cut, &[])).starts_with("the text document is malformed"));
}
