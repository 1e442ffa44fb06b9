//! The loaded models. Beyond the maximum number, the least recently used is dropped.
//!
//! A model is loaded in the thread of the client that requests it, so that loading one does not
//! delay users of another. Clients that request the same model wait for one load. A failed load is
//! not remembered: its user repairs the folder and tries again. Changed files are noticed with the
//! next request.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use rag_protocol::{EngineError, ErrorKind, embed::ModelRef};

use super::{
    model::{Model, Stamp},
    runtime::Runtime,
};
use crate::sandbox;

#[derive(Debug)]
pub struct Models {
    runtime: Runtime,
    capacity: usize,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    of: HashMap<ModelRef, Slot>,
    /// Counts requests; each slot stores the number of its last one.
    clock: u64,
}

#[derive(Debug, Default, Clone)]
struct Slot {
    used: u64,
    /// Locked while the model loads.
    loaded: Arc<Mutex<Option<LoadedModel>>>,
}

#[derive(Debug)]
struct LoadedModel {
    stamp: Stamp,
    model: Arc<Model>,
}

impl Models {
    pub fn new(runtime: Runtime, capacity: usize) -> Self {
        Self {
            runtime,
            capacity: capacity.max(1),
            slots: Mutex::default(),
        }
    }

    /// The model, which is loaded now.
    ///
    /// # Errors
    /// The errors of [`Model::load`].
    pub fn get(&self, reference: &ModelRef) -> Result<Arc<Model>, EngineError> {
        let slot = self.slot(reference);
        let mut loaded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(reference);
        match &*loaded {
            Some(current) if current.stamp == stamp => return Ok(Arc::clone(&current.model)),
            Some(_) => {
                tracing::info!(model = %reference.dir.display(), "the model's files have changed")
            }
            None => {}
        }
        *loaded = None; // before the new one takes memory too
        let start = Instant::now();
        let model = match Model::load(reference, &self.runtime) {
            Ok(model) => Arc::new(model),
            Err(error) => {
                self.forget(reference, &slot);
                // A path that the sandbox refuses looks like this, too.
                let is_refused = error.kind == ErrorKind::PermissionDenied && sandbox::is_entered();
                return Err(if is_refused {
                    out_of_reach(error)
                } else {
                    error
                });
            }
        };
        tracing::info!(
            model = %reference.dir.display(),
            file = reference.precision.file_name(),
            dimensions = model.info.dimensions,
            max_tokens = model.info.max_tokens,
            milliseconds = start.elapsed().as_millis() as u64,
            "loaded a model"
        );
        *loaded = Some(LoadedModel {
            stamp,
            model: Arc::clone(&model),
        });
        self.make_room(reference);
        Ok(model)
    }

    fn slot(&self, reference: &ModelRef) -> Arc<Mutex<Option<LoadedModel>>> {
        let mut slots = self.lock();
        slots.clock += 1;
        let now = slots.clock;
        let slot = slots.of.entry(reference.clone()).or_default();
        slot.used = now;
        Arc::clone(&slot.loaded)
    }

    fn forget(&self, reference: &ModelRef, slot: &Arc<Mutex<Option<LoadedModel>>>) {
        let mut slots = self.lock();
        if slots
            .of
            .get(reference)
            .is_some_and(|current| Arc::ptr_eq(&current.loaded, slot))
        {
            slots.of.remove(reference);
        }
    }

    /// Drops the least recently used model. Requests that still use a dropped model keep it until
    /// they are answered.
    fn make_room(&self, newcomer: &ModelRef) {
        let mut slots = self.lock();
        while slots.of.len() > self.capacity {
            let oldest = slots
                .of
                .iter()
                .filter(|(other, _)| *other != newcomer)
                .min_by_key(|(_, slot)| slot.used);
            let Some(oldest) = oldest.map(|(reference, _)| reference.clone()) else {
                return;
            };
            tracing::info!(model = %oldest.dir.display(), file = oldest.precision.file_name(),
                "dropped a model");
            slots.of.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn out_of_reach(error: EngineError) -> EngineError {
    EngineError {
        kind: ErrorKind::OutOfReach,
        ..error
    }
    .hint(
        "The process reads models from the folders that it was started with (--model-dir). \
            Repeat the command.",
    )
}
