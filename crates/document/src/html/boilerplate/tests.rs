fn text(html: &str) -> String {
    crate::html::extract(html, "a.html").unwrap().text
}

#[test]
fn elements_around_the_content_are_dropped() {
    let page = "<body><header><a href=/>Site</a><nav>Menu</nav></header><div \
        role=navigation>More</div>\
                <div id=content><h1>Keys</h1><p>They are rotated at night, by the watch.</p></div>\
                <aside>Related</aside><div role='dialog'>Sign \
                up</div><footer>Imprint</footer></body>";
    assert_eq!(
        text(page),
        "# Keys\n\nThey are rotated at night, by the watch."
    );
}

#[test]
fn requests_for_consent_are_dropped_by_their_names() {
    for name in [
        "id=cookie-banner",
        "class='box cookieConsent visible'",
        "class=cookie_notice__wrap",
        "id=onetrust-consent-sdk",
        "id=CybotCookiebotDialog",
        "class=gdpr-popup",
        "class=cookiebar",
        "class=consent-modal",
        "class=cc-window",
    ] {
        let page = format!(
            "<div {name}>We value your privacy</div><p>All about keys and how to rotate them</p>"
        );
        assert_eq!(
            text(&page),
            "All about keys and how to rotate them",
            "{name}"
        );
    }
    for name in [
        "class=cookiecutter-sidebar",
        "class=recipe-cookies",
        "id=consent",
        "class=modal",
        "id=cookie-policy",
    ] {
        let page = format!("<div {name}>A page</div><p>All about keys and how to rotate them</p>");
        assert!(text(&page).starts_with("A page"), "{name}");
    }
    assert!(
        text("<div class=cookie-notice>Our policy on cookies, at length</div><p>end</p>")
            .contains("policy")
    );
    assert!(text("<body class=cookie-banner-open><p>Text</body>").contains("Text"));
}

#[test]
fn boilerplate_is_dropped_by_its_names() {
    for furniture in [
        "<div class=navheader><table><tr><td>Prev<td>Next</table></div>",
        "<table class=navfooter><tr><td>Prev<td>Next</table>",
        "<ul class='docnav top'><li>Prev<li>Next</ul>",
        "<div id=nav>Menu</div>",
        "<div class='navbar navbar-default'>Menu</div>",
        "<div class=site-nav>Menu</div>",
        "<div class=nav-links>Menu</div>",
        "<ol class=breadcrumb><li>Home</ol>",
        "<div class=page-breadcrumbs>Home</div>",
        "<div id=banner>Download the book</div>",
        "<div class=footer>Imprint</div>",
        "<div id=site-footer>Imprint</div>",
    ] {
        let page = format!("{furniture}<p>All about keys and how to rotate them</p>{furniture}");
        assert_eq!(
            text(&page),
            "All about keys and how to rotate them",
            "{furniture}"
        );
    }
    for content in [
        "<div class=navy>A page</div>",
        "<div class=navigator-api>A page</div>",
        "<div class=footnotes>A page</div>",
        "<div class=card-footer>A page</div>",
        "<h2 class=nav-title>A page</h2>",
        "<div class=banner-history>A page</div>",
        "<article><div class=footer>A page</div></article>",
    ] {
        let page = format!("<p>All about keys and how to rotate them</p>{content}");
        assert!(text(&page).ends_with("A page"), "{content}");
    }
    let deep = format!("{}<p>All about keys</p>", "<div class=nav>".repeat(20_000));
    assert_eq!(text(&deep), "All about keys");
    let most = "<div class=nav-wrapper><p>All about keys</p></div><p>end</p>";
    assert_eq!(text(most), "All about keys\n\nend");
}

#[test]
fn line_numbers_are_not_part_of_code() {
    let page = "<table class=highlighttable><tr><td class=linenos><pre>1\n2</pre><td \
        class=code><pre>one = 1\n\
                two = 2</pre></table><pre><span class=linenos>1</span>three = 3</pre>";
    assert_eq!(
        text(page),
        "```\none = 1\ntwo = 2\n```\n\n```\nthree = 3\n```"
    );
}

#[test]
fn headers_and_footers_of_an_article_are_kept() {
    let article = "<article><header><h1>Keys</h1></header><p>Text</p><aside>Mind the \
        gap</aside><footer>By Ann</footer></article>";
    assert_eq!(text(article), "# Keys\n\nText\n\nMind the gap\n\nBy Ann");
}

#[test]
fn main_is_the_content_if_it_holds_most_of_the_text() {
    let long = "They are rotated at night. ".repeat(5);
    assert_eq!(
        text(&format!(
            "<div>Menu</div><main><p>{long}</main><div>Ads</div>"
        )),
        long.trim()
    );
    assert_eq!(
        text(&format!(
            "<div>Menu</div><article><p>{long}</article><div>Ads</div>"
        )),
        long.trim()
    );
    assert_eq!(
        text(&format!("<main>Loading</main><div>{long}</div>")),
        format!("Loading\n\n{}", long.trim())
    );
    let two = format!("<article>{long}</article><article>{long}</article>");
    assert_eq!(text(&two).matches("at night").count(), 10);
}

#[test]
fn the_only_first_heading_stays_wherever_it_is() {
    assert_eq!(
        text("<header>Site <h1>Keys</h1></header><p>Text</p>"),
        "# Keys\n\nText"
    );
    assert_eq!(
        text("<header><h1>Site</h1></header><h1>Keys</h1><p>Text</p>"),
        "# Keys\n\nText"
    );
}

#[test]
fn a_page_that_is_all_boilerplate_is_kept() {
    assert_eq!(text("<nav><a href=/a>A</a></nav>"), "A");
    assert_eq!(text("<header><p>All</header>"), "All");
}

#[test]
fn siblings_of_the_longest_article_are_content() {
    let long = "They are rotated at night. ".repeat(5);
    let long = long.trim();
    let page = format!(
        "<div><h1>Keys</h1><p>Price: 40 euros.</p></div><article><p>{long}</article>\
         <article>Thanks</article><section><h2>Data</h2><table><tr><th>Power<td>40 W</table>\
         </section>\
         <div class=widget><h3>News</h3><p>Read our letter. It is free.</p></div>\
         <div><h3>More</h3><ul><li><a href=/b>Locks and bolts</a><li><a href=/c>Doors</a></ul>\
         </div>"
    );
    let told = crate::html::extract(&page, "a.html").unwrap();
    assert_eq!(
        told.text,
        format!(
            "# Keys\n\nPrice: 40 euros.\n\n{long}\n\nThanks\n\n## Data\n\n\
             | Power | 40 W |\n| --- | --- |"
        )
    );
    assert_eq!(
        told.warnings[0].message,
        "1 part beside the page's content was left out: \"News Read our letter. It is free.\""
    );
}

#[test]
fn asides_with_sentences_are_content() {
    for (html, expected) in [
        (
            "<main><p>Run it.</p><aside>Beta</aside></main>",
            "Run it.\n\nBeta",
        ),
        (
            "<p>Run it.</p><aside>Never run it as root.</aside>",
            "Run it.\n\nNever run it as root.",
        ),
        (
            "<main><p>Run it.</p><aside>See <a href=/b>this</a></aside></main>",
            "Run it.",
        ),
        (
            "<p>Run it.</p><aside><p>Now new: <a href=/b>a page on keys.</a></aside>",
            "Run it.",
        ),
    ] {
        assert_eq!(text(html), expected, "{html}");
    }
}

#[test]
fn names_of_boilerplate_are_no_reason_to_drop_prose() {
    for content in [
        "<section id=navigation><h2>Navigation</h2><p>F6</p></section>",
        "<div class=section id=breadcrumbs-1><h2>Breadcrumbs</h2><p>They show the path.</p></div>",
        "<section id=cookie-banner><h2>Cookie banner</h2><p>It opens once.</p></section>",
        "<section id=footer><h2>Footer</h2><p>A sum</p></section>",
        "<div class=footer-note><p>VAT is not included.</p></div>",
        "<div class='hatnote navigation-not-searchable'>This is not about wells.</div>",
        "<div class=nav-tab-content><p>Turn the key twice.</p></div>",
        "<div class=menu>Soup 4, bread 2</div>",
    ] {
        let page =
            format!("<p>All about keys and how to rotate them, night by night.</p>{content}");
        let kept = text(content);
        assert!(text(&page).ends_with(&kept), "{content}");
    }
}

#[test]
fn a_header_leaves_its_sentences_with_the_heading() {
    let page = "<header><a href=/>Shop</a><div><h1>Pump</h1><p>Price: 40 euros.</p>\
        <a href=/c>Cart</a>\
        </div></header><main><p>It pumps water from a depth of seven metres.</main>";
    assert_eq!(
        text(page),
        "# Pump\n\nPrice: 40 euros.\n\nIt pumps water from a depth of seven metres."
    );
}

#[test]
fn what_is_dropped_with_sentences_is_told() {
    let told = |html: &str| {
        let page = crate::html::extract(html, "a.html").unwrap();
        page.warnings
            .into_iter()
            .map(|warning| warning.message)
            .collect::<Vec<_>>()
    };
    let main = "<main><p>All about keys and how to rotate them, night by night, in words.</main>";
    assert_eq!(
        told(&format!(
            "{main}<footer>We close at six. Come early. And bring a bag, too.</footer>"
        )),
        [
            "1 part beside the page's content was left out: \"We close at six. Come early. \
             And bring ...\""
        ]
    );
    for quiet in [
        "<footer>© 2024 We. All rights reserved.</footer>",
        "<nav>We close at six. Come early.</nav>",
        "<footer><a href=/a>We close at six.</a> <a href=/b>Come early.</a></footer>",
        "<div class=cookie-banner>We use cookies. Click here.</div>",
    ] {
        assert!(told(&format!("{main}{quiet}")).is_empty(), "{quiet}");
    }
}
