use super::*;

fn text(file: &str) -> String {
    extract(file, "a.xml").unwrap().text
}

#[test]
fn a_file_with_words_around_elements_is_a_text() {
    let file = "<?xml version=\"1.0\"?><!DOCTYPE article><article xmlns=\"x\"><info><title>Tea \
        &amp; time</title></info><para>Water is <emphasis>hot</emphasis>,\n and <math><msup><mi>x\
        </mi><mn>2</mn></msup></math>.</para><section><title>Kinds</title><itemizedlist><listitem>\
        <para>green</para></listitem><listitem><para>black: <code>b</code> tea</para><para>more\
        </para></listitem></itemizedlist><programlisting>a\n  b</programlisting><table><tgroup>\
        <thead><row><entry>k</entry><entry>v</entry></row></thead><tbody><row><entry>a</entry>\
        <entry>1</entry></row></tbody></tgroup></table><section><title>Deep</title><para>End.\
        </para></section></section></article>";
    let read = extract(file, "a.xml").unwrap();
    assert_eq!(
        read.text,
        "# Tea & time\n\nWater is hot, and x^2.\n\n## Kinds\n\n- green\n- black: b tea\n\nmore\n\n\
         ```\na\n  b\n```\n\n| k | v |\n| --- | --- |\n| a | 1 |\n\n### Deep\n\nEnd."
    );
    assert_eq!(read.title.text, "Tea & time");
}

#[test]
fn data_are_records() {
    let file = "<shop xmlns:x=\"y\" name=\"Leaf\"><open>9-17</open><items><item id=\"1\">\
        <name>Green tea</name><price currency=\"EUR\">2.50</price><tag>hot</tag><tag>fresh</tag>\
        <maker><city>Uji</city></maker></item><item id=\"2\"><name>Black\n# tea</name></item>\
        </items><end>x</end></shop>";
    assert_eq!(
        text(file),
        "name: Leaf\nopen: 9-17\n\nid: 1\nname: Green tea\nprice.currency: EUR\nprice: 2.50\n\
         tag: hot\ntag: fresh\nmaker.city: Uji\n\nid: 2\nname: Black\n\\# tea\n\nend: x"
    );
    assert_eq!(text("<a>x</a>"), "a: x");
}

#[test]
fn damaged_and_hostile_files_are_errors() {
    let message = |file: &str| extract(file, "a.xml").unwrap_err().message;
    for file in ["<a><b>", "<a></b>", "<a b=\"", "<a>x</a"] {
        assert!(
            message(file).starts_with("the XML file is malformed"),
            "{file}"
        );
    }
    let deep = format!("{}x{}", "<a>".repeat(50_000), "</a>".repeat(50_000));
    assert!(message(&deep).contains("nested too deeply"));
    let bomb = "<!DOCTYPE a [<!ENTITY x \"xxxxxxxxxx\"><!ENTITY y SYSTEM \"file:///etc/passwd\">]>\
        <a>one &x;&y; two</a>";
    assert_eq!(text(bomb), "a: one  two");
}
