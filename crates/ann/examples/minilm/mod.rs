//! The 100,000 embeddings of `shared/data/ann` that examples measure with.

use std::{env, error::Error, fs, path::Path};

pub const DIMENSIONS: usize = 384;

pub struct Data {
    pub base: Vec<f32>,
    pub queries: Vec<f32>,
    /// The nearest 100 rows of each query.
    pub truth: Vec<u32>,
}

impl Data {
    /// Reads them from the folder that `RAG_TEST_DATA` names.
    pub fn read() -> Result<Self, Box<dyn Error>> {
        let folder = env::var("RAG_TEST_DATA").unwrap_or_else(|_| "../shared/data".into());
        let folder = Path::new(&folder).join("ann");
        let truth = fs::read(folder.join("minilm-100k.gt100.i32"))?;
        Ok(Self {
            base: read_f16(&folder.join("minilm-100k.base.f16"))?,
            queries: read_f16(&folder.join("minilm-100k.query.f16"))?,
            truth: truth
                .chunks_exact(4)
                .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
        })
    }

    #[allow(dead_code)] // not every example needs it
    pub fn vector(&self, i: usize) -> &[f32] {
        &self.base[i * DIMENSIONS..(i + 1) * DIMENSIONS]
    }
}

fn read_f16(path: &Path) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(bytes
        .chunks_exact(2)
        .map(|b| f16_to_f32(u16::from_le_bytes([b[0], b[1]])))
        .collect())
}

/// A half-precision number; infinities and NaN do not occur in the data.
fn f16_to_f32(half: u16) -> f32 {
    let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(half >> 10 & 31), f32::from(half & 1023));
    match exponent {
        0 => sign * fraction * 2f32.powi(-24),
        _ => sign * (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}
