//! Where in a document a phrase is.

use std::ops::ControlFlow;

use rag_pages::{
    IndexError,
    memory::{self, OutOfMemory},
};

use super::{Alternative, MAX_NEAR, Phrase, PlaceWords, Sloppy, each_exact, merged_places};
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
        let mut mark = |place: usize, position: u32| {
            for Alternative { term, shift } in &self.places[place].alternatives {
                let own = position.checked_sub(*shift);
                let own = own.and_then(|own| of_terms[*term].binary_search(&own).ok());
                if let Some(own) = own {
                    found[*term][own] = true;
                }
            }
        };
        self.with_places(
            |term| of_terms[term],
            |places| each_found(places, self.slop, check, &mut mark),
        )?;
        Ok(found)
    }
}

/// Calls `f` with each place, by its number, and each of its positions at which a document has the
/// phrase. A pair may come more than once.
pub(super) fn each_found(
    places: &[PlaceWords<'_, '_>],
    slop: u32,
    check: impl Fn(),
    mut f: impl FnMut(usize, u32),
) -> Result<(), OutOfMemory> {
    if slop == 0 || places.len() > MAX_NEAR {
        let all = each_exact(places, check, |moved| {
            for (number, (offset, _)) in places.iter().enumerate() {
                if let Ok(position) = u32::try_from(moved + i64::from(*offset)) {
                    f(number, position);
                }
            }
            ControlFlow::Continue(())
        });
        debug_assert!(all.is_continue());
        return Ok(());
    }
    let merged = merged_places(places)?;
    let mut next = vec![0; merged.len()];
    Sloppy::new(&merged, slop).each(check, |first, most| {
        for (number, place) in merged.iter().enumerate() {
            let from = &mut next[number];
            *from = first[number].max(*from);
            while place.moved(*from).is_some_and(|moved| moved <= most) {
                f(number, place.positions[*from]);
                *from += 1;
            }
        }
        ControlFlow::Continue(())
    });
    Ok(())
}
