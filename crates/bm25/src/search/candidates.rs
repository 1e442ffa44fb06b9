//! Documents of a window that may be among the best, while the terms are added that are not
//! essential.

use rag_pages::IndexError;

use super::window::{WINDOW, place_in};

/// Room for the places of all documents of a window.
pub const CANDIDATES: usize = WINDOW.next_power_of_two();

/// Documents of a window that may be good enough.
pub struct Candidates<'w> {
    pub units: &'w mut [u32; WINDOW],
    pub places: &'w mut [u16; CANDIDATES],
    pub count: &'w mut usize,
    pub start: u32,
}

impl Candidates<'_> {
    /// Adds to each candidate what `units` returns for its document, its place, and the units that
    /// it lacks. Keeps the candidates that have `least` units then.
    #[inline]
    pub fn add(
        &mut self,
        least: u32,
        mut units: impl FnMut(u32, usize, u32) -> Result<u32, IndexError>,
    ) -> Result<(), IndexError> {
        let mut kept = 0;
        for i in 0..*self.count {
            let place = usize::from(self.places[i]);
            let sum = self.units[place];
            let added = units(self.start + place as u32, place, least.saturating_sub(sum))?;
            let sum = sum.saturating_add(added);
            let is_enough = sum >= least;
            self.units[place] = if is_enough { sum } else { 0 };
            self.places[kept] = place as u16;
            kept += usize::from(is_enough);
        }
        *self.count = kept;
        Ok(())
    }

    /// Adds units of documents to those of them that are candidates: each candidate has units.
    #[inline]
    pub fn add_all(&mut self, documents: &[u32], added: &[u32]) {
        for (document, added) in documents.iter().zip(added) {
            let place = place_in::<WINDOW>(*document, self.start);
            let sum = self.units[place];
            let with = sum.saturating_add(*added);
            self.units[place] = if sum > 0 { with } else { 0 };
        }
    }

    /// Keeps the candidates that have `least` units.
    pub fn keep(&mut self, least: u32) -> Result<(), IndexError> {
        self.add(least, |_, _, _| Ok(0))
    }
}
