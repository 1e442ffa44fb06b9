//! Thoughts of models that write them before the answer: `<think>...</think>The answer.`
//!
//! Servers that know their model send thoughts in a member of their own. Others leave the markers
//! in the text. A text that only mentions a marker keeps it: thoughts are at the beginning.

/// What models write around their thoughts.
const MARKERS: [(&str, &str); 4] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
];

/// Takes the thoughts out of an answer that arrives in pieces.
#[derive(Debug, Default)]
pub struct ThoughtFilter {
    state: State,
    /// The end of what has arrived, which may be a part of a marker.
    held: String,
    left_out: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    /// Until this marker.
    Thought(&'static str),
    /// After thoughts: white space is left out.
    Gap,
    Answer,
}

impl ThoughtFilter {
    /// Takes the next piece. Returns what of the answer is known now.
    pub fn push(&mut self, piece: &str) -> String {
        if self.state == State::Answer {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        loop {
            match self.state {
                State::Start => {
                    let text = self.held.trim_start();
                    if let Some((begin, end)) = MARKERS.iter().find(|(b, _)| text.starts_with(b)) {
                        let thoughts = text.len() - begin.len();
                        self.leave_out(self.held.len() - thoughts);
                        self.state = State::Thought(end);
                    } else if MARKERS.iter().any(|(begin, _)| begin.starts_with(text)) {
                        return String::new();
                    } else if let Some(end) = end_of_unmarked(&self.held) {
                        self.leave_out(end);
                        self.state = State::Gap;
                    } else {
                        self.state = State::Answer;
                        return std::mem::take(&mut self.held);
                    }
                }
                State::Thought(end) => {
                    let Some(at) = self.held.find(end) else {
                        let kept = kept_for(end, &self.held);
                        self.leave_out(self.held.len() - kept);
                        return String::new();
                    };
                    self.leave_out(at + end.len());
                    self.state = State::Gap;
                }
                State::Gap => {
                    self.leave_out(self.held.len() - self.held.trim_start().len());
                    if self.held.is_empty() {
                        return String::new();
                    }
                    self.state = State::Answer;
                    return std::mem::take(&mut self.held);
                }
                State::Answer => return String::new(),
            }
        }
    }

    /// Returns what is left of the answer after the last piece.
    pub fn finish(&mut self) -> String {
        if let State::Thought(_) = self.state {
            self.leave_out(self.held.len());
        }
        self.state = State::Answer;
        std::mem::take(&mut self.held)
    }

    /// Returns the number of bytes that were left out since the last call.
    pub fn take_left_out(&mut self) -> usize {
        std::mem::take(&mut self.left_out)
    }

    fn leave_out(&mut self, bytes: usize) {
        self.held.drain(..bytes);
        self.left_out += bytes;
    }
}

/// Returns a whole answer without its thoughts.
pub fn without_thoughts(text: &str) -> String {
    let mut filter = ThoughtFilter::default();
    let shown = filter.push(text);
    shown + &filter.finish()
}

/// Returns the end of thoughts that begin without a marker, because the server has put it into the
/// prompt. It is found if one piece has the whole of them.
fn end_of_unmarked(text: &str) -> Option<usize> {
    let (begin, end) = MARKERS[0];
    let at = text.find(end)?;
    (!text[..at].contains(begin)).then_some(at + end.len())
}

/// Returns the length of the longest end of a text that a marker begins with.
fn kept_for(marker: &str, text: &str) -> usize {
    let longest = (1..marker.len()).rev();
    longest
        .into_iter()
        .find(|length| text.ends_with(&marker[..*length]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer, taken in pieces of so many characters, and the bytes that were left out.
    fn shown(text: &str, size: usize) -> (String, usize) {
        let characters: Vec<char> = text.chars().collect();
        let mut filter = ThoughtFilter::default();
        let pieces = characters.chunks(size);
        let mut shown: String = pieces
            .map(|piece| filter.push(&piece.iter().collect::<String>()))
            .collect();
        shown += &filter.finish();
        (shown, filter.take_left_out())
    }

    #[test]
    fn thoughts_are_left_out_however_they_arrive() {
        for (text, answer) in [
            ("<think>plan</think>Answer [1].", "Answer [1]."),
            ("\n<think>\nplan [9] <b>\n</think>\n\nÄ [1].", "Ä [1]."),
            ("<think></think>", ""),
            ("<think>never ends", ""),
            ("<think>a </thi </think> b", "b"),
            ("<thinking>a</think>b</thinking> c", "c"),
            ("[THINK]a[/THINK]b", "b"),
            ("<reasoning>a</reasoning>b", "b"),
            ("Use <think>x</think> so.", "Use <think>x</think> so."),
            ("`<think>` is a tag.", "`<think>` is a tag."),
            ("<thin", "<thin"),
            ("<thunder> is no tag", "<thunder> is no tag"),
            ("  indented", "  indented"),
            ("", ""),
        ] {
            for size in 1..=text.chars().count().max(1) {
                let (shown, left_out) = shown(text, size);
                assert_eq!(shown, answer, "{text} by {size}");
                assert_eq!(left_out, text.len() - answer.len(), "{text} by {size}");
            }
        }
    }

    #[test]
    fn the_beginning_may_be_in_the_prompt() {
        assert_eq!(without_thoughts("plan [9]\n</think>\n\nA tag."), "A tag.");
        assert_eq!(
            without_thoughts("The pair <think></think> is a tag."),
            "The pair <think></think> is a tag."
        );
    }
}
