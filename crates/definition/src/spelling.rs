//! Hints for misspelled names.

/// The least number of characters of a part of a name that stands for the name.
const MIN_PART: usize = 3;

/// Returns a hint that lists the known words, and first the one that was probably meant.
pub fn did_you_mean(given: &str, known: &[&str], what: &str) -> String {
    let guess =
        meant(given, known).map_or_else(String::new, |word| format!("Did you mean \"{word}\"? "));
    format!("{guess}{what}: {}.", known.join(", "))
}

/// Returns the name with a similar spelling, or else one that begins or ends with what was given.
pub fn meant<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    const MAX_BYTES: usize = 64;
    if given.len() > MAX_BYTES {
        return None;
    }
    let given = given.to_lowercase();
    let words = || known.iter().map(|word| (word.to_lowercase(), *word));
    let nearest = words()
        .map(|(lower, word)| (strsim::osa_distance(&given, &lower), word))
        .filter(|(distance, word)| *distance <= (word.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word);
    let is_part = |word: &String| {
        given.len() >= MIN_PART && (word.starts_with(&given) || word.ends_with(&given))
    };
    nearest.or_else(|| {
        words()
            .find(|(lower, _)| is_part(lower))
            .map(|(_, word)| word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_stands_for_it() {
        let known = ["repositoryURL", "branch", "paths"];
        for (given, expected) in [
            ("brunch", Some("branch")),
            ("path", Some("paths")),
            ("url", Some("repositoryURL")),
            ("repository", Some("repositoryURL")),
            ("rl", None),
            ("depth", None),
        ] {
            assert_eq!(meant(given, &known), expected, "{given}");
        }
    }
}
