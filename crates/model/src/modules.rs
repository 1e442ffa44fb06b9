//! `modules.json`: the steps of a sentence-transformers folder, in their order.

use std::path::Path;

use rag_protocol::EngineError;
use serde::Deserialize;

use crate::{invalid, settings::optional};

/// The steps of `modules.json`.
pub(crate) struct Modules {
    /// Folder of the pooling's settings.
    pub pooling: String,
    /// Folders of dense layers, and whether their input is scaled to length 1.
    pub dense: Vec<(String, bool)>,
    /// Classes of steps that are not known.
    pub further: Vec<String>,
    /// True if the vectors have length 1 in the end, or nothing says so.
    pub normalizes: bool,
}

impl Modules {
    pub fn read(dir: &Path) -> Result<Self, EngineError> {
        #[derive(Deserialize)]
        struct Module {
            r#type: String,
            #[serde(default)]
            path: String,
        }
        let path = dir.join("modules.json");
        let mut modules = Self {
            pooling: "1_Pooling".into(),
            dense: vec![],
            further: vec![],
            normalizes: true,
        };
        let Some(listed) = optional::<Vec<Module>>(&path)? else {
            return Ok(modules);
        };
        let mut is_normalized = false;
        for module in listed {
            let class = module.r#type.rsplit('.').next().unwrap_or_default();
            let is_plain = |path: &str| !path.is_empty() && !path.contains(['/', '\\']);
            if ["Pooling", "Dense"].contains(&class)
                && (!is_plain(&module.path) || module.path == "..")
            {
                return Err(invalid(
                    &path,
                    format!("the path \"{}\" is not a folder's name", module.path),
                ));
            }
            match class {
                "Transformer" => {}
                "Normalize" => is_normalized = true,
                "Pooling" => modules.pooling = module.path,
                "Dense" => {
                    modules.dense.push((module.path, is_normalized));
                    is_normalized = false;
                }
                _ => modules.further.push(class.to_owned()),
            }
        }
        modules.normalizes = is_normalized;
        Ok(modules)
    }
}
