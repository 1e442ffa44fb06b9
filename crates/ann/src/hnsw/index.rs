//! What does not change while the index's file exists.

use rag_pages::{ReadPages, WritePages};

use super::{
    IndexError, IndexParameters, MAX_LEVELS,
    layout::{
        CENTROID_ELEMENTS, Geometry, NONE, PageKind, SpecialSpace, centroid_elements,
        max_code_dimensions,
    },
    meta::MetaPage,
    upper::UpperLevelCopy,
};
use crate::code::Quantizer;

/// An opened index. It holds no page, so a backend may keep it.
pub struct Index {
    description: IndexParameters,
    /// `None` until the first vector is inserted.
    body: Option<Body>,
}

/// The properties that depend on the dimensions.
pub(super) struct Body {
    pub quantizer: Quantizer,
    /// See [`MetaPage`].
    pub centroid: u32,
    pub mixed: bool,
    pub m: u16,
    /// The division of pages by level. All levels above the base have the same.
    levels: Vec<Geometry>,
    pub upper: UpperLevelCopy,
}

impl Body {
    fn new(description: &IndexParameters, quantizer: Quantizer, meta: &MetaPage) -> Self {
        let code_bytes = quantizer.code_bytes();
        let levels = (0..MAX_LEVELS)
            .map(|level| Geometry::of_level(level, code_bytes, description.m))
            .collect();
        let (centroid, mixed) = (meta.centroid, meta.mixed);
        Self {
            quantizer,
            centroid,
            mixed,
            m: description.m,
            levels,
            upper: UpperLevelCopy::default(),
        }
    }

    /// Returns true if codes still have the meaning that they had when the index was opened.
    pub fn is_of(&self, meta: &MetaPage) -> bool {
        (self.centroid, self.mixed) == (meta.centroid, meta.mixed)
    }

    #[inline]
    pub fn level(&self, level: usize) -> &Geometry {
        &self.levels[level.min(MAX_LEVELS - 1)]
    }

    pub fn base(&self) -> &Geometry {
        &self.levels[0]
    }
}

impl Index {
    /// # Errors
    /// The first pages are not those of an index.
    pub fn open(store: &impl ReadPages) -> Result<Self, IndexError> {
        let meta = MetaPage::read(store)?;
        let description = meta.description;
        if meta.dimensions == 0 {
            return Ok(Self {
                description,
                body: None,
            });
        }
        let dimensions = meta.dimensions as usize;
        let code_dimensions = code_dimensions(dimensions, description.m);
        if meta.code_dimensions as usize != code_dimensions {
            return Err(IndexError::corrupted(
                0,
                format!(
                    "invalid number of code dimensions: {}",
                    meta.code_dimensions
                ),
            ));
        }
        let centroid = if meta.centroid == NONE {
            vec![]
        } else {
            read_centroid(store, meta.centroid, dimensions)?
        };
        let quantizer = Quantizer::new(
            description.metric,
            dimensions,
            code_dimensions,
            description.seed,
            centroid,
        );
        Ok(Self {
            description,
            body: Some(Body::new(&description, quantizer, &meta)),
        })
    }

    /// Returns true if the store still has the index that this was opened from, and its codes have
    /// the same meaning.
    ///
    /// # Errors
    /// The meta page is not that of an index.
    pub fn is_of(&self, store: &impl ReadPages) -> Result<bool, IndexError> {
        let meta = MetaPage::read(store)?;
        Ok(meta.description == self.description
            && self.body.as_ref().is_none_or(|body| body.is_of(&meta)))
    }

    /// Returns true if [`learn`](super::learn) was begun and not finished. It must then be called
    /// before anything is inserted.
    pub fn is_mixed(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.mixed)
    }

    /// Sets the dimensions of an index that was created on an empty table, unless another insert
    /// has done so meanwhile.
    ///
    /// # Errors
    /// The meta page is not that of an index.
    pub fn set_dimensions(store: &impl WritePages, dimensions: usize) -> Result<Self, IndexError> {
        MetaPage::update(store, |meta| {
            let first = meta.dimensions == 0;
            if first {
                meta.dimensions = dimensions as u32;
                meta.code_dimensions = code_dimensions(dimensions, meta.description.m) as u32;
            }
            first
        })?;
        Self::open(store)
    }

    /// `None` if nothing was ever stored.
    pub fn dimensions(&self) -> Option<usize> {
        self.body.as_ref().map(|body| body.quantizer.dimensions())
    }

    pub fn description(&self) -> &IndexParameters {
        &self.description
    }

    pub(super) fn body(&self) -> Option<&Body> {
        self.body.as_ref()
    }
}

/// Writes the meta page of an index whose dimensions its first vector will determine.
pub fn create(store: &impl WritePages, description: &IndexParameters) {
    MetaPage::new(*description).create(store);
}

/// Returns the quantizer for vectors of some dimensions. It codes all coordinates, or as many as
/// fit a page.
pub fn quantizer(
    description: &IndexParameters,
    dimensions: usize,
    centroid: Vec<f32>,
) -> Quantizer {
    let code_dimensions = code_dimensions(dimensions, description.m);
    Quantizer::new(
        description.metric,
        dimensions,
        code_dimensions,
        description.seed,
        centroid,
    )
}

fn code_dimensions(dimensions: usize, m: u16) -> usize {
    dimensions.next_multiple_of(128).min(max_code_dimensions(m))
}

/// Reads the rotated mean from pages in sequence. It has as many elements as the padded dimensions.
fn read_centroid(
    store: &impl ReadPages,
    first: u32,
    dimensions: usize,
) -> Result<Vec<f32>, IndexError> {
    let length = dimensions.next_multiple_of(128);
    let mut centroid = Vec::with_capacity(length);
    let pages = length.div_ceil(CENTROID_ELEMENTS) as u32;
    if u64::from(first) + u64::from(pages) > u64::from(store.block_count()) {
        return Err(IndexError::corrupted(
            0,
            "the pages of the centroid are missing",
        ));
    }
    for block in first..first + pages {
        store.read(block, |page| {
            if SpecialSpace::read(page, block)?.kind != PageKind::Centroid {
                return Err(IndexError::corrupted(
                    block,
                    "page is not part of the centroid",
                ));
            }
            let missing = length - centroid.len();
            centroid.extend(centroid_elements(page).take(missing));
            Ok(())
        })?;
    }
    if centroid.iter().all(|x| x.is_finite()) {
        Ok(centroid)
    } else {
        Err(IndexError::corrupted(first, "the centroid is not finite"))
    }
}
