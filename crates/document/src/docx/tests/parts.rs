//! Where the parts of a document are, and what it shows of other files.

use super::*;

const TYPES: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

fn relations(of: &[(&str, &str, &str)]) -> String {
    let each: String = of
        .iter()
        .map(|(id, kind, target)| {
            format!("<Relationship Id=\"{id}\" Type=\"{TYPES}/{kind}\" Target=\"{target}\"/>")
        })
        .collect();
    format!("<Relationships>{each}</Relationships>")
}

fn read(files: &[(&str, &str)]) -> Result<String, DocumentError> {
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, xml)| (*name, xml.as_bytes()))
        .collect();
    extract(&packed(&files), "a.docx").map(|extracted| extracted.text)
}

#[test]
fn parts_are_where_the_file_says() {
    let document = format!(
        "<w:document><w:body><w:p><w:pPr><w:pStyle w:val=\"X\"/></w:pPr>{}</w:p>\
        </w:body></w:document>",
        r("Minutes")
    );
    let styles =
        "<w:styles><w:style w:styleId=\"X\"><w:name w:val=\"heading 1\"/></w:style></w:styles>";
    let named = |target: &str| relations(&[("a", "officeDocument", target)]);
    let own = |target: &str| relations(&[("b", "styles", target)]);
    for (files, expected) in [
        (
            vec![
                ("_rels/.rels", named("word/document2.xml")),
                ("word/document2.xml", document.clone()),
                ("word/_rels/document2.xml.rels", own("styles2.xml")),
                ("word/styles2.xml", styles.into()),
            ],
            "# Minutes",
        ),
        // At the root, with absolute names, in other cases and with backslashes.
        (
            vec![
                ("_RELS/.RELS", named("/Main.xml")),
                ("main.XML", document.clone()),
                ("_rels\\main.xml.rels", own("/deep/styles.xml")),
                ("deep\\Styles.xml", styles.into()),
            ],
            "# Minutes",
        ),
        // A reference to nothing, and none at all.
        (
            vec![
                ("_rels/.rels", named("word/gone.xml")),
                ("word/document.xml", document.clone()),
                ("word/_rels/document.xml.rels", own("gone.xml")),
            ],
            "Minutes",
        ),
        (
            vec![
                ("word/document.xml", document.clone()),
                ("word/styles.xml", styles.into()),
            ],
            "# Minutes",
        ),
        // Damaged references are as none.
        (
            vec![
                ("_rels/.rels", "<Relationships><Relationship Id=</".into()),
                ("word\\document.xml", document.clone()),
            ],
            "Minutes",
        ),
    ] {
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(name, xml)| (*name, xml.as_str()))
            .collect();
        assert_eq!(read(&files).unwrap(), expected);
    }
    let external = "<Relationships><Relationship Id=\"a\" TargetMode=\"External\" \
        Type=\"x/officeDocument\" Target=\"https://example.org/a.xml\"/></Relationships>";
    assert!(read(&[("_rels/.rels", external)]).is_err());
}

#[test]
fn charts_diagrams_and_imported_pages_are_shown() {
    let drawing = |inner: &str| {
        format!(
            "<w:p>{}<w:r><w:drawing>{inner}</w:drawing></w:r></w:p>",
            r("See:")
        )
    };
    let document = format!(
        "<w:document><w:body>{}{}{}<w:altChunk r:id=\"p\"/><w:altChunk r:id=\"q\"/></w:body></w:document>",
        drawing(
            "<wp:docPr descr=\"Sales&#xA;&#xA;Description automatically generated\"/><c:chart r:id=\"c\"/>"
        ),
        drawing("<dgm:relIds r:dm=\"d\"/>"),
        drawing("<wp:docPr name=\"x\" descr=\"A red pump\"/><pic:pic/>"),
    );
    let point = |at: usize, value: &str| format!("<c:pt idx=\"{at}\"><c:v>{value}</c:v></c:pt>");
    let chart = format!(
        "<c:chartSpace><c:title><a:p><a:r><a:t>Per year</a:t></a:r></a:p></c:title><c:ser><c:tx>{}</c:tx>\
         <c:cat>{}{}</c:cat><c:val>{}{}</c:val></c:ser></c:chartSpace>",
        point(0, "Tea"),
        point(0, "2021"),
        point(1, "2022"),
        point(0, "5"),
        point(1, "7"),
    );
    let diagram = "<dgm:dataModel><dgm:pt><dgm:t><a:bodyPr/><a:p><a:r><a:t>Plan</a:t></a:r></a:p></dgm:t>\
        </dgm:pt><dgm:pt><dgm:t><a:p><a:r><a:t>Do &amp; </a:t></a:r><a:r><a:t>check</a:t></a:r></a:p>\
        </dgm:t></dgm:pt></dgm:dataModel>";
    let links = relations(&[
        ("c", "chart", "charts/chart1.xml"),
        ("d", "diagramData", "diagrams/data1.xml"),
        ("p", "aFChunk", "page.htm"),
        ("q", "aFChunk", "old.bin"),
    ]);
    let files: Vec<(&str, &[u8])> = vec![
        ("word/document.xml", document.as_bytes()),
        ("word/_rels/document.xml.rels", links.as_bytes()),
        ("word/charts/chart1.xml", chart.as_bytes()),
        ("word/diagrams/data1.xml", diagram.as_bytes()),
        (
            "word/page.htm",
            b"<html><body><h2>From a page</h2><p>Imported.</p></body></html>",
        ),
        ("word/old.bin", b"MIME-Version: 1.0"),
    ];
    let extracted = extract(&packed(&files), "a.docx").unwrap();
    assert_eq!(
        extracted.text,
        "See:\n\nSales\n\nPer year\n\n| | Tea |\n| --- | --- |\n| 2021 | 5 |\n| 2022 | 7 |\n\n\
         See:\n\n- Plan\n- Do & check\n\nSee:\n\nA red pump\n\n## From a page\n\nImported."
    );
    assert_eq!(
        extracted.warnings[0].message,
        "1 imported file was left out"
    );
}

#[test]
fn a_document_that_ends_in_the_middle_is_an_error() {
    let whole = format!(
        "<w:document><w:body>{}{}</w:body></w:document>",
        p("one"),
        p("two")
    );
    for end in ["</w:document>", "</w:body>", "<w:p><w:r><w:t>two"] {
        let cut = &whole[..whole.find(end).unwrap() + end.len() - 1];
        for cut in [cut, &whole[..whole.find(end).unwrap()]] {
            assert!(read(&[("word/document.xml", cut)]).is_err(), "{cut}");
        }
    }
}

#[test]
fn hostile_documents_are_read_or_refused() {
    let nested = |tag: &str, times: usize| {
        format!(
            "<w:document><w:body>{}{}{}</w:body></w:document>",
            format!("<{tag}>").repeat(times),
            r("deep"),
            format!("</{tag}>").repeat(times)
        )
    };
    for tag in [
        "w:p",
        "w:tbl",
        "w:tc",
        "w:txbxContent",
        "w:sdt",
        "mc:AlternateContent",
        "m:oMath",
        "w:r",
        "w:pPr",
        "w:rPr",
        "w:ruby",
        "w:rt",
        "w:footnote",
        "w:trPr",
        "w:ffData",
        "w:del",
    ] {
        let _ = read(&[("word/document.xml", &nested(tag, 20_000))]);
    }
    let entities = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b SYSTEM \"file:///etc/passwd\">]>";
    let body = format!(
        "{entities}<w:document><w:body><w:p>{}</w:p></w:body></w:document>",
        r("x&a;&b;y")
    );
    assert_eq!(read(&[("word/document.xml", &body)]).unwrap(), "xy");
    // Elements in places where they cannot be.
    for body in [
        "<w:tc><w:p/></w:tc>",
        "<w:tr/>",
        "<w:tbl><w:p/></w:tbl>",
        "<w:rt/>",
        "<w:t>x</w:t>",
        "<w:p><w:tbl><w:tr><w:p/></w:tr></w:tbl></w:p>",
        "<w:gridSpan/>",
        "<w:fldChar/>",
        "<w:pPr/>",
    ] {
        let document = format!(
            "<w:document><w:body>{body}{}</w:body></w:document>",
            p("end")
        );
        assert!(
            read(&[("word/document.xml", &document)])
                .unwrap()
                .ends_with("end"),
            "{body}"
        );
    }
}
