//! The loaded models. They have room together: if a model does not fit, the least recently used
//! ones are dropped. A model that nobody has used for a while is dropped, too, except for the one
//! that was used last.
//!
//! A model is loaded in the thread of the client that requests it, so that loading one does not
//! delay users of another. Clients that request the same model wait for one load. A failed load is
//! not remembered: its user repairs the folder and tries again. Changed files are noticed with the
//! next request.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rag_protocol::{EngineError, ErrorKind, embed::ModelRef};

use super::{
    fingerprint::Stamp,
    footprint::{Footprint, footprint},
    model::Model,
    provider::Provider,
    runtime::Runtime,
};
use crate::sandbox;

#[derive(Debug)]
pub struct Models {
    runtime: Arc<Runtime>,
    /// Maximum size of all models in bytes.
    room: u64,
    /// Time after which an unused model is dropped.
    idle: Duration,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    of: HashMap<ModelRef, Slot>,
    /// Counts requests; each slot stores the number of its last one.
    clock: u64,
}

#[derive(Debug, Clone)]
struct Slot {
    used: u64,
    used_at: Instant,
    /// Size of the model, once it is being loaded.
    bytes: u64,
    /// Locked while the model loads.
    loaded: Arc<Mutex<Option<Arc<Model>>>>,
}

impl Models {
    pub fn new(runtime: Runtime, room: u64, idle: Duration) -> Self {
        Self {
            runtime: Arc::new(runtime),
            room,
            idle,
            slots: Mutex::default(),
        }
    }

    /// The model, which is loaded now.
    ///
    /// # Errors
    /// `LimitExceeded` for a model that is too large, and the errors of [`Model::load`].
    pub fn get(&self, reference: &ModelRef) -> Result<Arc<Model>, EngineError> {
        let slot = self.slot(reference);
        let mut loaded = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match &*loaded {
            Some(model) if model.stamp == Stamp::of(reference) => return Ok(Arc::clone(model)),
            Some(_) => {
                tracing::info!(model = %reference.dir.display(), "the model's files have changed")
            }
            None => {}
        }
        *loaded = None; // before the new one takes memory too
        let start = Instant::now();
        let need = footprint(reference, &self.runtime);
        let copies = self.copies(reference, &need);
        let bytes = need.model + copies as u64 * need.copy;
        let model = self
            .make_room(reference, bytes)
            .and_then(|()| Model::load(reference, &self.runtime, copies));
        let model = match model {
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
            precision = reference.precision.name(),
            runtime = model.computation.runtime,
            dimensions = model.info.dimensions,
            max_tokens = model.info.max_tokens,
            megabytes = bytes >> 20,
            milliseconds = start.elapsed().as_millis() as u64,
            "loaded a model"
        );
        *loaded = Some(Arc::clone(&model));
        Ok(model)
    }

    /// The model, which is loaded now, and soon computes several texts side by side.
    ///
    /// # Errors
    /// Those of [`Models::get`].
    pub fn get_for_many(&self, reference: &ModelRef) -> Result<Arc<Model>, EngineError> {
        let model = self.get(reference)?;
        model.open_copies(reference, &self.runtime);
        Ok(model)
    }

    /// Returns the number of copies of a model that there is room for, 0 or at least 2. They and
    /// the model take half of all room at most, so that there is room for another model.
    fn copies(&self, reference: &ModelRef, need: &Footprint) -> usize {
        let room = (self.room / 2).saturating_sub(need.model) / need.copy.max(1);
        let copies = room.min(self.runtime.threads as u64) as usize;
        let runtime = &self.runtime;
        let is_copied = runtime.provider != Provider::Cuda && runtime.openvino(reference).is_none();
        if is_copied && copies > 1 { copies } else { 0 }
    }

    fn slot(&self, reference: &ModelRef) -> Arc<Mutex<Option<Arc<Model>>>> {
        let mut slots = self.lock();
        slots.clock += 1;
        let now = slots.clock;
        let slot = slots.of.entry(reference.clone()).or_insert_with(|| Slot {
            used: now,
            used_at: Instant::now(),
            bytes: 0,
            loaded: Arc::default(),
        });
        slot.used = now;
        slot.used_at = Instant::now();
        Arc::clone(&slot.loaded)
    }

    fn forget(&self, reference: &ModelRef, slot: &Arc<Mutex<Option<Arc<Model>>>>) {
        let mut slots = self.lock();
        if slots
            .of
            .get(reference)
            .is_some_and(|current| Arc::ptr_eq(&current.loaded, slot))
        {
            slots.of.remove(reference);
        }
    }

    /// Drops the least recently used models until there is room for another one. Requests that
    /// still use a dropped model keep it until they are answered.
    fn make_room(&self, newcomer: &ModelRef, bytes: u64) -> Result<(), EngineError> {
        let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
        if bytes > self.room {
            return Err(EngineError::new(
                ErrorKind::LimitExceeded,
                format!(
                    "the model in \"{}\" does not fit into memory",
                    newcomer.dir.display()
                ),
            )
            .detail(format!(
                "It needs about {} MB, and rag.model_memory is {} MB.",
                megabytes(bytes),
                megabytes(self.room)
            ))
            .hint("Increase rag.model_memory, or use the model in 8 bits."));
        }
        let mut slots = self.lock();
        if let Some(slot) = slots.of.get_mut(newcomer) {
            slot.bytes = bytes;
        }
        while slots.of.values().map(|slot| slot.bytes).sum::<u64>() > self.room {
            let others = slots
                .of
                .iter()
                .filter(|(other, slot)| *other != newcomer && slot.bytes > 0);
            let Some(oldest) = others.min_by_key(|(_, slot)| slot.used) else {
                break;
            };
            let oldest = oldest.0.clone();
            slots.drop_model(&oldest, "another one needs the room");
        }
        Ok(())
    }

    /// Drops models that nobody uses. Returns the time until there may be another one.
    pub fn drop_idle(&self) -> Duration {
        let mut slots = self.lock();
        let last = slots.of.values().map(|slot| slot.used).max();
        let is_idle = |slot: &Slot| Some(slot.used) != last && slot.used_at.elapsed() >= self.idle;
        let idle: Vec<ModelRef> = slots
            .of
            .iter()
            .filter(|(_, slot)| is_idle(slot))
            .map(|(reference, _)| reference.clone())
            .collect();
        for reference in idle {
            slots.drop_model(&reference, "nobody has used it for a while");
        }
        self.idle
            .clamp(Duration::from_millis(100), Duration::from_secs(60))
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn drop_model(&mut self, reference: &ModelRef, why: &str) {
        tracing::info!(model = %reference.dir.display(), precision = reference.precision.name(),
            why, "dropped a model");
        self.of.remove(reference);
    }
}

pub(super) fn out_of_reach(error: EngineError) -> EngineError {
    EngineError {
        kind: ErrorKind::OutOfReach,
        ..error
    }
    .hint(
        "The process reads models from the folders that it was started with (--model-dir). \
            Repeat the command.",
    )
}
