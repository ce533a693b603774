//! The config that is in force, and the masker that it asks for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use becket_engine::config::{Loader, Snapshot};
use becket_engine::mask::Masker;

/// However busy it is, and whatever the clock does: the files are looked at so often at least.
const AT_LEAST_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct InForce {
    loader: Loader,
    key: [u8; 32],
    config: Arc<Snapshot>,
    masker: Arc<Masker>,
    /// When the files were looked at last, by both clocks.
    looked: (i64, Instant),
}

impl InForce {
    pub(crate) fn new(mut loader: Loader, key: [u8; 32], now_ms: i64) -> Self {
        let looked = (now_ms, Instant::now());
        let config = loader.current();
        let masker = Arc::new(Masker::from_config(key, &config.config));
        Self {
            loader,
            key,
            config,
            masker,
            looked,
        }
    }

    /// As it was at the last look.
    pub(crate) fn config(&self) -> Arc<Snapshot> {
        Arc::clone(&self.config)
    }

    pub(crate) fn masker(&self) -> Arc<Masker> {
        Arc::clone(&self.masker)
    }

    /// What holds for an event that began at that time. A look that was later than that has seen
    /// every change that the event could rely on, so under load not every event costs one.
    pub(crate) fn for_event(
        &mut self,
        began_ms: i64,
        now_ms: i64,
        now: Instant,
        _: Option<&std::path::Path>,
    ) -> (Arc<Snapshot>, Arc<Masker>) {
        let (looked_ms, looked) = self.looked;
        if began_ms >= looked_ms || now.duration_since(looked) > AT_LEAST_EVERY {
            self.look(now_ms, now);
        }
        (Arc::clone(&self.config), self.masker())
    }

    /// Looks at the files.
    pub(crate) fn look(&mut self, now_ms: i64, now: Instant) -> Arc<Snapshot> {
        self.looked = (now_ms, now);
        let config = self.loader.current();
        if config.generation != self.config.generation {
            self.masker = Arc::new(Masker::from_config(self.key, &config.config));
        }
        self.config = Arc::clone(&config);
        config
    }
}
