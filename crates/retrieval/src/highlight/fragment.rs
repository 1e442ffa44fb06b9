//! The part of a text that shows most words of a query.

use std::{collections::HashMap, ops::Range};

use super::{
    MarkedWord,
    sentences::{sentences, trimmed},
};

/// Returns the part of a text with the most different words by weight that has at most `limit`
/// columns. `measure` returns the columns of a character. It is the beginning of a text without
/// words.
///
/// It begins with a sentence if that leaves room for the words, or else with a word.
pub fn fragment(
    text: &str,
    words: &[MarkedWord],
    limit: usize,
    measure: fn(char) -> usize,
) -> Range<usize> {
    Cutter::new(text, limit, measure).cut(|cutter| {
        let core = best(text, words, limit, measure);
        core.unwrap_or(cutter.all.start..cutter.all.start)
    })
}

/// Returns the part of a text, of at most `limit` columns, that has a part of it, or else begins
/// with it.
pub fn fragment_at(
    text: &str,
    part: Range<usize>,
    limit: usize,
    measure: fn(char) -> usize,
) -> Range<usize> {
    Cutter::new(text, limit, measure).cut(|cutter| match cutter.fits(&part) {
        true => part,
        false => part.start..part.start,
    })
}

/// Returns the part from the first to the last of the words that count most together and have at
/// most `limit` columns. It is empty if no word has so few, and `None` if there is no word.
fn best(
    text: &str,
    words: &[MarkedWord],
    limit: usize,
    measure: fn(char) -> usize,
) -> Option<Range<usize>> {
    let mut words: Vec<&MarkedWord> = words.iter().collect();
    words.sort_by_key(|word| (word.place.start, word.place.end));
    let columns = Columns::new(text, &words, measure);
    let start = words.first()?.place.start;
    let mut best = (0.0, start..start);
    let (mut next, mut window) = (0, Window::default());
    for (first, word) in words.iter().enumerate() {
        next = next.max(first);
        let start = word.place.start;
        while next < words.len() && columns.of(start..words[next].place.end) <= limit {
            window.add(words[next]);
            next += 1;
        }
        if next == first {
            continue; // the word alone is too long
        }
        let weight = window.weight();
        if weight > best.0 {
            let ends = words[first..next].iter().map(|word| word.place.end);
            best = (weight, start..ends.max().unwrap_or(start));
        }
        window.remove(word);
    }
    Some(best.1)
}

/// The columns before the places of words.
struct Columns {
    /// Places, and the columns before them, in their order.
    before: Vec<(usize, usize)>,
}

impl Columns {
    fn new(text: &str, words: &[&MarkedWord], measure: fn(char) -> usize) -> Self {
        let ends = |word: &&MarkedWord| [word.place.start, word.place.end];
        let mut places: Vec<usize> = words.iter().flat_map(ends).collect();
        places.sort_unstable();
        places.dedup();
        let (mut at, mut columns) = (0, 0);
        let before = places.into_iter().map(|place| {
            columns += text[at..place].chars().map(measure).sum::<usize>();
            at = place;
            (place, columns)
        });
        Self {
            before: before.collect(),
        }
    }

    fn of(&self, range: Range<usize>) -> usize {
        let before = |place: usize| {
            let number = self.before.partition_point(|(known, _)| *known < place);
            self.before.get(number).map_or(0, |(_, columns)| *columns)
        };
        before(range.end) - before(range.start)
    }
}

/// The words of a window: the weights of each number.
#[derive(Default)]
struct Window(HashMap<u32, Vec<f32>>);

impl Window {
    fn add(&mut self, word: &MarkedWord) {
        self.0.entry(word.number).or_default().push(word.weight);
    }

    fn remove(&mut self, word: &MarkedWord) {
        if let Some(weights) = self.0.get_mut(&word.number)
            && let Some(place) = weights.iter().position(|weight| *weight == word.weight)
        {
            weights.swap_remove(place);
        }
    }

    /// Returns the sum of the weights of different words.
    fn weight(&self) -> f32 {
        let most = |weights: &Vec<f32>| weights.iter().copied().fold(0.0, f32::max);
        self.0.values().map(most).sum()
    }
}

/// Cuts a text.
struct Cutter<'t> {
    text: &'t str,
    /// The text without white space at its ends.
    all: Range<usize>,
    limit: usize,
    measure: fn(char) -> usize,
}

impl<'t> Cutter<'t> {
    fn new(text: &'t str, limit: usize, measure: fn(char) -> usize) -> Self {
        Self {
            text,
            all: trimmed(text, 0..text.len()),
            limit,
            measure,
        }
    }

    /// Returns the whole text if it fits, or else a part around another one.
    fn cut(&self, core: impl FnOnce(&Self) -> Range<usize>) -> Range<usize> {
        if self.fits(&self.all) {
            return self.all.clone();
        }
        let core = core(self);
        // white space at the ends is no part
        let within = |at: usize| at.clamp(self.all.start, self.all.end);
        self.around(within(core.start)..within(core.end))
    }

    fn columns(&self, range: Range<usize>) -> usize {
        self.text[range].chars().map(self.measure).sum()
    }

    /// Returns true if a part is not too long. Reads no more of it than is needed.
    fn fits(&self, range: &Range<usize>) -> bool {
        self.reach(range.start) >= range.end
    }

    /// Returns where the longest part ends that begins at a place and is not too long.
    fn reach(&self, start: usize) -> usize {
        let mut used = 0;
        let rest = self.text[start..self.all.end.max(start)].char_indices();
        let mut too_long = rest.skip_while(|(_, c)| {
            used += (self.measure)(*c);
            used <= self.limit
        });
        too_long.next().map_or(self.all.end, |(at, _)| start + at)
    }

    /// Returns where the longest part begins that ends at a place and has so many columns at most.
    fn reach_back(&self, end: usize, columns: usize) -> usize {
        let mut used = 0;
        let rest = self.text[self.all.start.min(end)..end].char_indices().rev();
        let within = rest.take_while(|(_, c)| {
            used += (self.measure)(*c);
            used <= columns
        });
        within.last().map_or(end, |(at, _)| self.all.start + at)
    }

    /// Returns a part around one that fits: what is before it in its sentence, and what follows.
    fn around(&self, core: Range<usize>) -> Range<usize> {
        let sentences = sentences(self.text);
        let start = self.start(&sentences, &core);
        let reach = self.reach(start).max(core.end);
        if reach < self.all.end {
            return trimmed(
                self.text,
                start..self.end(&sentences, start, core.end, reach),
            );
        }
        // the rest of the text is short: more of what is before it has room
        let earliest = self.reach_back(self.all.end, self.limit);
        let next = sentences.partition_point(|sentence| sentence.start < earliest);
        let earlier = match sentences.get(next) {
            Some(sentence) if sentence.start <= start => sentence.start,
            _ => self.word_from(earliest, start),
        };
        trimmed(self.text, earlier.min(start)..self.all.end)
    }

    /// Returns where a part begins that has another one.
    fn start(&self, sentences: &[Range<usize>], core: &Range<usize>) -> usize {
        let before = sentences.partition_point(|sentence| sentence.start <= core.start);
        if let Some(sentence) = before.checked_sub(1).map(|last| &sentences[last])
            && self.fits(&(sentence.start..core.end))
        {
            return sentence.start;
        }
        let room = self.limit.saturating_sub(self.columns(core.clone()));
        self.word_from(self.reach_back(core.start, room / 2), core.start)
    }

    /// Returns where a part ends, between `least` and `most`: with a sentence if that leaves little
    /// room, or else with a word.
    fn end(&self, sentences: &[Range<usize>], start: usize, least: usize, most: usize) -> usize {
        let next = sentences.partition_point(|sentence| sentence.end <= most);
        if let Some(sentence) = next.checked_sub(1).map(|last| &sentences[last])
            && sentence.end >= least.max(start + 1)
            && 3 * self.columns(start..sentence.end) >= 2 * self.limit
        {
            return sentence.end;
        }
        if self.text[most..].starts_with(char::is_whitespace) {
            return most;
        }
        let part = &self.text[least.max(start)..most];
        match part.rfind(char::is_whitespace) {
            Some(blank) => least.max(start) + blank,
            None => self.character_from_end(least, most),
        }
    }

    /// Returns the last place between two at which a character begins that is no mark on another.
    fn character_from_end(&self, least: usize, most: usize) -> usize {
        let mut places = self.text[least..].char_indices();
        let is_begin = |c: char| (self.measure)(c) > 0;
        let places = places.by_ref().map(|(at, c)| (least + at, c));
        let found = places.take_while(|(at, _)| *at <= most);
        let last = found.filter(|(_, c)| is_begin(*c)).map(|(at, _)| at).last();
        last.filter(|at| *at > least).unwrap_or(most)
    }

    /// Returns the first place from one on, and not behind another, at which a word begins.
    fn word_from(&self, from: usize, to: usize) -> usize {
        if from <= self.all.start || self.text[..from].ends_with(char::is_whitespace) {
            return from.max(self.all.start).min(to);
        }
        let part = &self.text[from..to];
        match part.find(char::is_whitespace) {
            Some(blank) => to - part[blank..].trim_start().len(),
            None => to,
        }
    }
}
