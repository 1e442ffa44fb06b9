//! Where in a document a phrase is.

use std::{borrow::Cow, ops::ControlFlow};

use rag_pages::{
    IndexError,
    memory::{self, OutOfMemory},
};

use super::{Alternative, CHECKED, MAX_NEAR, Phrase, Sloppy, WordPositions, merged};
use crate::terms::Terms;

impl Phrase {
    /// Returns for each term which of its positions in a document are part of the phrase. The terms
    /// of the document must have positions. Where words of a phrase with a slop repeat, all that
    /// are near enough count. `check` is called now and then, and may end the search by unwinding.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn found(&self, document: &Terms, check: impl Fn()) -> Result<Vec<Vec<bool>>, IndexError> {
        self.found_in(document, check)
            .map_err(IndexError::of_memory)
    }

    fn found_in(&self, document: &Terms, check: impl Fn()) -> Result<Vec<Vec<bool>>, OutOfMemory> {
        let terms = self.terms.iter().map(|(term, _)| document.positions(term));
        let of_terms = memory::collect(terms)?;
        let found = of_terms
            .iter()
            .map(|positions| memory::filled(positions.len(), false));
        let mut found = found.collect::<Result<Vec<_>, _>>()?;
        let places = self.places.iter().map(|place| {
            let words = place.alternatives.iter().map(|alternative| WordPositions {
                offset: i64::from(place.offset) - i64::from(alternative.shift),
                positions: Cow::Borrowed(of_terms[alternative.term]),
            });
            merged(&memory::collect(words)?, place.offset)
        });
        let places = places.collect::<Result<Vec<_>, _>>()?;
        each_found(&places, self.slop, check, |place, number| {
            let position = places[place].positions[number];
            for Alternative { term, shift } in &self.places[place].alternatives {
                let own = position.checked_sub(*shift);
                let own = own.and_then(|own| of_terms[*term].binary_search(&own).ok());
                if let Some(own) = own {
                    found[*term][own] = true;
                }
            }
        });
        Ok(found)
    }
}

/// Calls `f` with each place, by its number, and the number of each of its positions at which a
/// document has the phrase. A pair may come more than once.
pub(super) fn each_found(
    places: &[WordPositions<'_>],
    slop: u32,
    check: impl Fn(),
    mut f: impl FnMut(usize, usize),
) {
    let Some(rarest) = places.iter().min_by_key(|place| place.positions.len()) else {
        return;
    };
    if slop > 0 && places.len() <= MAX_NEAR {
        let mut next = vec![0; places.len()];
        Sloppy::new(places, slop).each(check, |first, most| {
            for (number, place) in places.iter().enumerate() {
                let from = &mut next[number];
                *from = first[number].max(*from);
                while place.moved(*from).is_some_and(|moved| moved <= most) {
                    f(number, *from);
                    *from += 1;
                }
            }
            ControlFlow::Continue(())
        });
        return;
    }
    let moved = (0..).map_while(|number| rarest.moved(number));
    for (tried, moved) in moved.enumerate() {
        if tried.is_multiple_of(CHECKED) {
            check();
        }
        if places.iter().all(|place| place.has(moved)) {
            for (number, place) in places.iter().enumerate() {
                f(number, place.first_from(moved));
            }
        }
    }
}
