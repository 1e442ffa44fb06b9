//! What stays the same as long as the index's file lives.

use rag_pages::{ReadPages, WritePages};

use super::{
    Damage, Description, MAX_LEVELS,
    layout::{
        CENTROID_ELEMENTS, Geometry, Kind, NONE, Special, centroid_elements, max_code_dimensions,
    },
    meta::Meta,
    upper::Upper,
};
use crate::code::Quantizer;

/// An opened index. It holds no page; each backend may keep it.
pub struct Index {
    description: Description,
    /// `None` until the first vector.
    body: Option<Body>,
}

/// What depends on the dimensions.
pub(super) struct Body {
    pub quantizer: Quantizer,
    /// As in [`Meta`].
    pub centroid: u32,
    pub mixed: bool,
    pub m: u16,
    /// By level; all above the base are divided alike.
    levels: Vec<Geometry>,
    pub upper: Upper,
}

impl Body {
    fn new(description: &Description, quantizer: Quantizer, meta: &Meta) -> Self {
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
            upper: Upper::default(),
        }
    }

    /// Whether codes still mean what they meant when the index was opened.
    pub fn is_of(&self, meta: &Meta) -> bool {
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
    /// The first pages are no index's.
    pub fn open(store: &impl ReadPages) -> Result<Self, Damage> {
        let meta = Meta::read(store)?;
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
            return Err(Damage::new(
                0,
                format!("its codes have {} dimensions", meta.code_dimensions),
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

    /// Whether the store still has the index that this was opened from, with the same meaning of
    /// its codes.
    ///
    /// # Errors
    /// The first page is no index's.
    pub fn is_of(&self, store: &impl ReadPages) -> Result<bool, Damage> {
        let meta = Meta::read(store)?;
        Ok(meta.description == self.description
            && self.body.as_ref().is_none_or(|body| body.is_of(&meta)))
    }

    /// Whether [`learn`](super::learn) was begun and did not end: it is to be called before
    /// anything is inserted.
    pub fn is_mixed(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.mixed)
    }

    /// Fixes the dimensions of an index that was made over an empty table, unless another has done
    /// so meanwhile.
    ///
    /// # Errors
    /// The first page is no index's.
    pub fn set_dimensions(store: &impl WritePages, dimensions: usize) -> Result<Self, Damage> {
        Meta::update(store, |meta| {
            let first = meta.dimensions == 0;
            if first {
                meta.dimensions = dimensions as u32;
                meta.code_dimensions = code_dimensions(dimensions, meta.description.m) as u32;
            }
            first
        })?;
        Self::open(store)
    }

    /// `None` where nothing was ever stored.
    pub fn dimensions(&self) -> Option<usize> {
        self.body.as_ref().map(|body| body.quantizer.dimensions())
    }

    pub fn description(&self) -> &Description {
        &self.description
    }

    pub(super) fn body(&self) -> Option<&Body> {
        self.body.as_ref()
    }
}

/// Writes the first page of an index whose dimensions its first vector will tell.
pub fn create(store: &impl WritePages, description: &Description) {
    Meta::new(*description).create(store);
}

/// The codes of an index over vectors of so many dimensions: all of them, or as many as fit a page.
pub fn quantizer(description: &Description, dimensions: usize, centroid: Vec<f32>) -> Quantizer {
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

/// The rotated mean: as many elements as the padded dimensions, on pages in sequence.
fn read_centroid(
    store: &impl ReadPages,
    first: u32,
    dimensions: usize,
) -> Result<Vec<f32>, Damage> {
    let length = dimensions.next_multiple_of(128);
    let mut centroid = Vec::with_capacity(length);
    let pages = length.div_ceil(CENTROID_ELEMENTS) as u32;
    if u64::from(first) + u64::from(pages) > u64::from(store.block_count()) {
        return Err(Damage::new(0, "the pages of its centroid are missing"));
    }
    for block in first..first + pages {
        store.read(block, |page| {
            if Special::read(page, block)?.kind != Kind::Centroid {
                return Err(Damage::new(block, "it holds no centroid"));
            }
            let missing = length - centroid.len();
            centroid.extend(centroid_elements(page).take(missing));
            Ok(())
        })?;
    }
    match centroid.iter().all(|x| x.is_finite()) {
        true => Ok(centroid),
        false => Err(Damage::new(first, "its centroid is not finite")),
    }
}
