//! The one address of a page: without its fragment, and without parameters that only count visits.

use url::Url;

/// Names of parameters that say where a visitor comes from. No page depends on them.
const TRACKING: [&str; 42] = [
    "_branch_match_id",
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "_kx",
    "__hsfp",
    "__hssc",
    "__hstc",
    "dclid",
    "epik",
    "fbclid",
    "gad_campaignid",
    "gad_source",
    "gbraid",
    "gclid",
    "gclsrc",
    "hsctatracking",
    "igsh",
    "igshid",
    "irclickid",
    "li_fat_id",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "ml_subscriber",
    "ml_subscriber_hash",
    "msclkid",
    "oly_anon_id",
    "oly_enc_id",
    "pk_campaign",
    "pk_content",
    "pk_keyword",
    "pk_kwd",
    "pk_medium",
    "pk_source",
    "srsltid",
    "ttclid",
    "twclid",
    "vero_id",
    "wbraid",
    "yclid",
];
/// First letters of such names, of which there are many.
const TRACKING_PREFIXES: [&str; 2] = ["utm_", "mtm_"];

/// Returns the address that a page is known by. Other parameters keep their order and spelling.
pub fn normalized(mut url: Url) -> Url {
    url.set_fragment(None);
    let Some(query) = url.query() else {
        return url;
    };
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_tracking(pair)).collect();
    let is_whole = kept.iter().map(|pair| pair.len() + 1).sum::<usize>() > query.len();
    if is_whole && !query.is_empty() {
        return url;
    }
    let kept = kept.join("&");
    url.set_query(Some(kept.as_str()).filter(|query| !query.is_empty()));
    url
}

/// Returns true for a parameter such as `utm_source=mail`.
fn is_tracking(pair: &str) -> bool {
    let name = pair.split('=').next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    TRACKING.contains(&name.as_str())
        || TRACKING_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_count_visits_are_no_part_of_an_address() {
        for (given, expected) in [
            ("", ""),
            ("#top", ""),
            ("?", ""),
            ("?&", "?&"),
            ("?id=1&amp;x=%C3%BC&&y", "?id=1&amp;x=%C3%BC&&y"),
            ("?utm_source=mail", ""),
            ("?UTM_Source=mail&GCLID=x#top", ""),
            ("?utm_source", ""),
            (
                "?id=1&utm_source=mail&utm_medium=a%26b&page=2&fbclid=x",
                "?id=1&page=2",
            ),
            ("?mc_cid=1&mc_eid=2&b=&a", "?b=&a"),
            (
                "?pk_campaign=x&mtm_source=y&msclkid=z&a=utm_source",
                "?a=utm_source",
            ),
            // these are others
            (
                "?utm=1&source=x&pk_id=2&gclid2=3&ref=a",
                "?utm=1&source=x&pk_id=2&gclid2=3&ref=a",
            ),
        ] {
            let url = |query: &str| Url::parse(&format!("https://a.example/p{query}")).unwrap();
            assert_eq!(normalized(url(given)), url(expected), "{given}");
        }
    }
}
