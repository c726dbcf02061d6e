//! Time and ids: the only module that reads a clock.
//!
//! Wall time is for display and rows. Limits and leases must never use it: they use the monotonic clock, which has no steps.
//! Tests pause tokio's clock, or set the wall clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A source of time and of monotonic ULIDs; cheap to clone.
#[derive(Debug, Clone)]
pub struct Clock {
    wall: Wall,
    ids: Arc<Mutex<ulid::Generator>>,
}

#[derive(Debug, Clone)]
enum Wall {
    System,
    Fixed(i64),
    /// Continues from here with tokio's time.
    #[cfg(any(test, feature = "testing"))]
    Following(i64, tokio::time::Instant),
    /// Wall and shared time, set by a test.
    #[cfg(any(test, feature = "testing"))]
    Set(Arc<TestTimes>),
}

/// The time of a clock of [`Clock::set`], in milliseconds.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Default)]
pub struct TestTimes {
    /// The wall clock.
    pub wall: std::sync::atomic::AtomicI64,
    /// The clock that the machine's processes share.
    pub shared: std::sync::atomic::AtomicI64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { wall: Wall::System, ids: Arc::new(Mutex::new(ulid::Generator::new())) }
    }
}

impl Clock {
    /// A clock with a fixed wall time, in Unix milliseconds.
    #[must_use]
    pub fn fixed(now_ms: i64) -> Self {
        Self { wall: Wall::Fixed(now_ms), ..Self::default() }
    }

    /// A clock that begins at this wall time, in Unix milliseconds, and continues with tokio's paused time.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn following(now_ms: i64) -> Self {
        let usual = Self::default();
        Self { wall: Wall::Following(now_ms, usual.instant()), ..usual }
    }

    /// A clock that a test sets.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn set(times: &Arc<TestTimes>) -> Self {
        Self { wall: Wall::Set(Arc::clone(times)), ..Self::default() }
    }

    /// Unix milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        match self.wall {
            Wall::System => i64::try_from(since_epoch().as_millis()).unwrap_or(i64::MAX),
            Wall::Fixed(now) => now,
            #[cfg(any(test, feature = "testing"))]
            Wall::Following(from, since) => {
                let elapsed = self.instant().saturating_duration_since(since).as_millis();
                from.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX))
            }
            #[cfg(any(test, feature = "testing"))]
            Wall::Set(ref times) => times.wall.load(std::sync::atomic::Ordering::SeqCst),
        }
    }

    /// The monotonic clock; it stops in tests that pause tokio's time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the owner")]
    pub fn instant(&self) -> tokio::time::Instant {
        tokio::time::Instant::now()
    }

    /// Milliseconds of a clock that all processes of the machine share and that cannot be set: it began with the system, and
    /// stops while the system sleeps. Where there is none, the wall clock's.
    #[must_use]
    pub fn shared_ms(&self) -> i64 {
        #[cfg(any(test, feature = "testing"))]
        if let Wall::Set(times) = &self.wall {
            return times.shared.load(std::sync::atomic::Ordering::SeqCst);
        }
        #[cfg(unix)]
        {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000)
        }
        #[cfg(not(unix))]
        self.now_ms()
    }

    /// A number in 0..1, for jitter.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "32 bits fit a double")]
    pub fn dice(&self) -> f64 {
        let bits = ulid::Ulid::generate().random() & u128::from(u32::MAX);
        bits as f64 / (f64::from(u32::MAX) + 1.0)
    }

    /// A ULID greater than every earlier one of this clock, also after the wall clock steps back.
    #[must_use]
    pub fn new_id(&self) -> String {
        let millis = u64::try_from(self.now_ms()).unwrap_or(0);
        let at = UNIX_EPOCH + Duration::from_millis(millis);
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        // The generator fails only after 2^80 ids in one millisecond; then the next millisecond is used.
        match ids.generate_from_datetime(at) {
            Ok(id) => id.to_string(),
            Err(overflow) => overflow.commit_overflow_increment().to_string(),
        }
    }
}

/// The date (UTC) of a time in Unix milliseconds: `2015-08-30`.
#[must_use]
pub fn date(ms: i64) -> String {
    // Days to a date of the proleptic Gregorian calendar, whose 400 years have 146,097 days; years begin in March here,
    // so that the leap day is the last of its year.
    let shifted = ms.div_euclid(86_400_000) + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[expect(clippy::disallowed_methods, reason = "this is the owner")]
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
