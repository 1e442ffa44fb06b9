//! Reads by text recognition what pages show and do not have as text.

use std::{sync::Arc, time::Instant};

use super::{
    PdfReader, Reader,
    pages::{self, Line, Page},
    readable,
};
use crate::ocr::{Picture, RecognitionError, RecognizedText, Recognizer};

/// The mean confidence below which a page is told of, in percent.
const LOW_CONFIDENCE: u8 = 60;
/// Vertical distance between two lines, in points: their order is all that counts.
const LINE_HEIGHT: f32 = 20.0;

/// What became of pages, counted from 1.
#[derive(Debug, Default)]
pub struct Recognition {
    pub read: Vec<usize>,
    /// Pages that were read with a low confidence.
    pub doubtful: Vec<usize>,
    /// Pages for which no time was left.
    pub late: Vec<usize>,
    /// The sum of the confidences.
    confidences: usize,
}

impl Recognition {
    /// Returns the mean confidence, in percent.
    pub fn confidence(&self) -> usize {
        self.confidences / self.read.len().max(1)
    }
}

impl PdfReader {
    /// With text recognition. PDFium draws the pages.
    #[must_use]
    pub fn with_recognizer(mut self, recognizer: Recognizer) -> Self {
        self.recognizer = Some(Arc::new(recognizer));
        self
    }

    /// Reads pages, counted from 1. Pages of which it does not find more letters stay as they are.
    pub(super) fn recognize(
        &self,
        bytes: &[u8],
        numbers: &[usize],
        pages: &mut [Page],
    ) -> Recognition {
        let (Some(recognizer), Reader::Pdfium(pdfium)) = (&self.recognizer, &self.reader) else {
            return Recognition::default();
        };
        let indexes: Vec<usize> = numbers.iter().map(|number| number - 1).collect();
        let draw = |visit: &mut Visit| pdfium.draw(bytes, &indexes, visit);
        read(recognizer, numbers, pages, draw)
    }

    /// Reads the pictures of a file, whose pages they are. Returns their texts, or `None` without
    /// text recognition.
    pub fn read_pictures(
        &self,
        count: usize,
        draw: impl FnOnce(&mut Visit),
    ) -> Option<(Vec<String>, Recognition)> {
        let recognizer = self.recognizer.as_ref()?;
        let numbers: Vec<usize> = (1..=count).collect();
        let mut pages: Vec<Page> = numbers.iter().map(|_| Page::default()).collect();
        let recognition = read(recognizer, &numbers, &mut pages, draw);
        let texts = pages::texts(pages);
        let texts = texts.iter().map(|text| readable(text.trim()));
        Some((texts.collect(), recognition))
    }
}

/// What is done with the picture of a page, counted from 0. False ends the drawing.
pub type Visit<'a> = dyn FnMut(usize, Option<Picture>) -> bool + 'a;

fn read(
    recognizer: &Recognizer,
    numbers: &[usize],
    pages: &mut [Page],
    draw: impl FnOnce(&mut Visit),
) -> Recognition {
    let mut recognition = Recognition::default();
    let deadline = Instant::now() + recognizer.time();
    let mut seen = vec![];
    {
        let mut visit = |index: usize, picture: Option<Picture>| {
            let read = picture.map(|picture| recognizer.read(&picture, deadline));
            if let Some(Err(RecognitionError::TookTooLong)) = read {
                return false;
            }
            let read = read.and_then(Result::ok).map(|read| {
                let found = Page {
                    lines: lines(&read),
                    is_whole: true,
                    ..Page::default()
                };
                (found, read.confidence)
            });
            if let (Some((found, confidence)), Some(page)) = (read, pages.get_mut(index))
                && found.letters() > page.letters()
            {
                *page = found;
                recognition.read.push(index + 1);
                recognition.confidences += usize::from(confidence);
                if confidence < LOW_CONFIDENCE {
                    recognition.doubtful.push(index + 1);
                }
            }
            seen.push(index + 1);
            true
        };
        draw(&mut visit);
    }
    let unseen = numbers.iter().filter(|number| !seen.contains(number));
    recognition.late = unseen.copied().collect();
    recognition
}

fn lines(read: &RecognizedText) -> Vec<Line> {
    let mut lines = vec![];
    let mut begins = true;
    for line in read.text.lines() {
        let text = line.trim();
        if text.is_empty() {
            begins = true;
            continue;
        }
        lines.push(Line {
            text: text.to_owned(),
            level: Some(-LINE_HEIGHT * lines.len() as f32),
            begins: std::mem::take(&mut begins),
        });
    }
    lines
}
