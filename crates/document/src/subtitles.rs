//! Subtitles: SubRip (`.srt`), WebVTT (`.vtt`) and SubViewer (`.sbv`).
//!
//! Each cue is a line. A paragraph ends where nothing is said for some seconds, and where somebody
//! else speaks. Times, styles and comments are left out, and so is a line that a cue repeats from
//! the one before, as captions that scroll do.

use rag_protocol::ingest::Stage;

use crate::{DocumentError, ExtractedDocument, Structure, title};

/// Seconds without a cue after which a paragraph begins.
const PAUSE: f64 = 3.0;

/// Text that is shown for some time.
struct Cue<'a> {
    begin: f64,
    end: f64,
    lines: Vec<&'a str>,
}

pub fn extract(file: &str, name: &str) -> Result<ExtractedDocument, DocumentError> {
    let file = file.replace("\r\n", "\n").replace('\r', "\n");
    let cues = cues(&file);
    let title = title::from_name(name);
    if cues.is_empty() {
        let mut extracted = ExtractedDocument::new(file, title, Structure::Prose);
        let message = "the file has no cues and was kept as written".into();
        extracted.warn(Stage::Extract, message);
        return Ok(extracted);
    }
    let mut text = String::new();
    let (mut before, mut speaker, mut until) = (vec![], String::new(), f64::INFINITY);
    for cue in &cues {
        let mut begins = cue.begin - until >= PAUSE;
        until = cue.end;
        let mut lines: Vec<String> = vec![];
        for line in &cue.lines {
            let (by, words) = spoken(line);
            if words.is_empty() || before.contains(&words) || lines.contains(&words) {
                continue;
            }
            if let Some(by) = by
                && by != speaker
            {
                begins = true;
                lines.push(format!("{by}: {words}"));
                speaker = by;
            } else {
                lines.push(words);
            }
        }
        if lines.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push_str(if begins { "\n\n" } else { "\n" });
        }
        text.push_str(&lines.join(" "));
        before = lines;
    }
    Ok(ExtractedDocument::new(text, title, Structure::Prose))
}

fn cues(file: &str) -> Vec<Cue<'_>> {
    let lines: Vec<&str> = file.split('\n').collect();
    let times: Vec<(usize, (f64, f64))> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((at, times(line)?)))
        .collect();
    let mut cues = vec![];
    for (i, (at, (begin, end))) in times.iter().enumerate() {
        let next = times.get(i + 1).map_or(lines.len(), |(next, _)| *next);
        let mut body = &lines[at + 1..next];
        // The line above the next times may be the number or the name of that cue.
        if let [rest @ .., last] = body
            && next < lines.len()
            && !last.trim().is_empty()
            && (is_number(last) || rest.last().is_some_and(|line| line.trim().is_empty()))
        {
            body = rest;
        }
        let body = body.iter().copied();
        // A comment or a style follows after an empty line.
        let is_over = |line: &&str| {
            let first = line.split([' ', '\t']).next().unwrap_or_default();
            !matches!(first, "NOTE" | "STYLE" | "REGION")
        };
        cues.push(Cue {
            begin: *begin,
            end: *end,
            lines: body.take_while(is_over).collect(),
        });
    }
    cues
}

fn is_number(line: &str) -> bool {
    !line.trim().is_empty() && line.trim().bytes().all(|b| b.is_ascii_digit())
}

/// Reads the line with the times of a cue.
fn times(line: &str) -> Option<(f64, f64)> {
    let (begin, rest) = match line.split_once("-->") {
        Some(times) => times,
        // SubViewer has nothing else in the line.
        None => line
            .trim()
            .split_once(',')
            .filter(|_| !line.contains(' '))?,
    };
    let end = rest.split_whitespace().next()?;
    Some((seconds(begin.trim())?, seconds(end)?))
}

fn seconds(time: &str) -> Option<f64> {
    let mut parts = time.rsplit(':');
    let mut seconds: f64 = parts.next()?.replace(',', ".").parse().ok()?;
    let mut unit = 60.0;
    let mut count = 1;
    for part in parts {
        seconds += unit * f64::from(part.trim().parse::<u32>().ok()?);
        unit *= 60.0;
        count += 1;
    }
    (count >= 2 && seconds.is_finite()).then_some(seconds)
}

/// Returns who speaks, if that is marked, and the words without tags.
fn spoken(line: &str) -> (Option<String>, String) {
    let mut words = String::new();
    let mut speaker = None;
    let mut rest = line;
    while let Some(at) = rest.find(['<', '{']) {
        words.push_str(&rest[..at]);
        rest = &rest[at..];
        let close = if rest.starts_with('<') { '>' } else { '}' };
        let tag = rest[1..].split(close).next().unwrap_or_default();
        let is_tag = rest.len() > tag.len() + 1
            && (close == '>' && is_name_of_tag(tag) || tag.starts_with('\\'));
        if !is_tag {
            words.push_str(&rest[..1]);
            rest = &rest[1..];
            continue;
        }
        if let Some(name) = tag.strip_prefix('v')
            && let Some((_, name)) = name.split_once(' ')
        {
            speaker = Some(plain(name)).filter(|name| !name.is_empty());
        }
        rest = &rest[tag.len() + 2..];
    }
    words.push_str(rest);
    (speaker, plain(&words))
}

fn is_name_of_tag(tag: &str) -> bool {
    let name = tag.strip_prefix('/').unwrap_or(tag);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) || tag == "/"
}

/// Returns words with the signs that entities stand for, and single spaces.
fn plain(words: &str) -> String {
    let words = words
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&nbsp;", " ")
        .replace("&lrm;", "")
        .replace("&rlm;", "")
        .replace("&amp;", "&");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &str) -> String {
        extract(file, "talk.srt").unwrap().text
    }

    #[test]
    fn cues_of_subrip_are_lines() {
        let file = "\u{FEFF}1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Hello</i> {\\an8}there,\r\n\
            2024\r\n\r\n2\r\n00:00:02,600 --> 00:00:04,000 X1:10\r\nfriends & 1 < 2\r\n3\r\n\
            00:01:00,000 --> 00:01:02,000\r\nLater\r\n\r\n";
        assert_eq!(text(file), "Hello there, 2024\nfriends & 1 < 2\n\nLater");
        let viewer = "0:00:00.599,0:00:04.160\n>> ALICE: Hi\n\n0:00:04.160,0:00:06\nyou\n";
        assert_eq!(text(viewer), ">> ALICE: Hi\nyou");
    }

    #[test]
    fn cues_of_webvtt_have_speakers() {
        let file = "WEBVTT - A talk\nKind: captions\n\nNOTE a\nremark\n\nSTYLE\n::cue {}\n\n\
            intro\n00:01.000 --> 00:02.000 align:start\n<v Ann>Good <c.x>morn&shy;ing</c></v>\n\n\
            00:02.000 --> 00:03.000\n<v Ann>all &amp; sundry</v>\n\nNOTE another\n\n\
            00:03.000 --> 00:04.000\n<v.loud Bob>Thanks<00:03.500><c> Ann</c>\n";
        assert_eq!(
            text(file),
            "Ann: Good morn&shy;ing\nall & sundry\n\nBob: Thanks Ann"
        );
    }

    #[test]
    fn lines_that_scroll_are_read_once() {
        let file = "1\n00:00:00,000 --> 00:00:01,000\none two\n\n2\n00:00:01,000 --> 00:00:02,000\n\
            one two\nthree\n\n3\n00:00:02,000 --> 00:00:03,000\nthree\nfour\n";
        assert_eq!(text(file), "one two\nthree\nfour");
    }

    #[test]
    fn other_files_are_kept_with_a_warning() {
        let read = extract("Just words -->\n1", "a.srt").unwrap();
        assert_eq!(read.text, "Just words -->\n1");
        let why = "the file has no cues and was kept as written";
        assert_eq!(read.warnings[0].message, why);
        for hostile in [
            "<".repeat(50_000),
            "{\\".repeat(50_000),
            "a-->".repeat(9_999),
        ] {
            let _ = extract(&format!("00:00:00,0 --> 00:00:01,0\n{hostile}"), "a.srt");
        }
        let many = "99999999:99:99,9 --> 00:00:01,0\nx\n".repeat(10_000);
        assert_eq!(text(&many).len(), 1);
    }
}
