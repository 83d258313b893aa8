//! Who makes what happens on devices: the runtime, a delegate, or whoever calls them.

use crate::Event;

/// Who makes something happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// A method that loads or runs, outside of its delegates.
    Runtime,
    /// A delegate that is initialised or runs, and the programs nested in it.
    Delegate,
    /// Whoever uses the methods: what happens around a load or a run, such as setting inputs and fetching outputs.
    #[default]
    Caller,
}

impl Origin {
    /// All of them, the runtime first.
    pub const ALL: [Self; 3] = [Self::Runtime, Self::Delegate, Self::Caller];

    /// `runtime`, `delegate` or `caller`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Delegate => "delegate",
            Self::Caller => "caller",
        }
    }
}

/// Follows the events of an environment, and knows who makes what happens between them.
///
/// It follows one method at a time: of methods that run at once in one environment, it takes one for the other.
#[derive(Clone, Debug, Default)]
pub struct OriginTracker {
    /// How many delegates we are inside of.
    delegates: usize,
    /// Whether a method loads or runs.
    busy: bool,
}

impl OriginTracker {
    /// Who makes what happens now, until the next event.
    pub const fn origin(&self) -> Origin {
        match (self.delegates, self.busy) {
            (1.., _) => Origin::Delegate,
            (0, true) => Origin::Runtime,
            (0, false) => Origin::Caller,
        }
    }

    /// `event` happens now. What a program nested in a delegate loads and runs is that delegate's business.
    pub const fn follow(&mut self, event: &Event<'_>) {
        match event {
            Event::DelegateInitBegin { .. } | Event::DelegateBegin { .. } => self.delegates += 1,
            Event::DelegateInitEnd | Event::DelegateEnd => {
                self.delegates = self.delegates.saturating_sub(1);
            }
            _ if self.delegates > 0 => {}
            Event::LoadBegin { .. } | Event::ExecuteBegin { .. } => self.busy = true,
            Event::LoadEnd { .. } | Event::ExecuteEnd { .. } => self.busy = false,
            Event::StepBegin { .. } | Event::StepEnd { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHOD: &str = "forward";
    const OUTPUTS: &[crate::ArgumentPlace] = &[];

    #[test]
    fn what_happens_is_of_whoever_is_innermost() {
        let mut tracker = OriginTracker::default();
        let init = Event::DelegateInitBegin {
            backend: "b",
            target: None,
            nbytes: 0,
        };
        let begin = Event::DelegateBegin {
            backend: "b",
            target: None,
            args: &[],
        };
        let end = Event::ExecuteEnd {
            method: METHOD,
            outputs: OUTPUTS,
        };
        assert_eq!(tracker.origin(), Origin::Caller);
        for (event, origin) in [
            (Event::LoadBegin { method: METHOD }, Origin::Runtime),
            (init, Origin::Delegate),
            (Event::LoadBegin { method: "nested" }, Origin::Delegate),
            (init, Origin::Delegate),
            (Event::DelegateInitEnd, Origin::Delegate),
            (Event::LoadEnd { method: "nested" }, Origin::Delegate),
            (Event::DelegateInitEnd, Origin::Runtime),
            (Event::LoadEnd { method: METHOD }, Origin::Caller),
            (Event::ExecuteBegin { method: METHOD }, Origin::Runtime),
            (begin, Origin::Delegate),
            (end, Origin::Delegate),
            (Event::DelegateEnd, Origin::Runtime),
            (end, Origin::Caller),
            // One too many changes nothing.
            (Event::DelegateEnd, Origin::Caller),
        ] {
            tracker.follow(&event);
            assert_eq!(tracker.origin(), origin, "after {event:?}");
        }
    }

    #[test]
    fn each_origin_has_a_name_of_its_own() {
        let names = Origin::ALL.map(Origin::name);
        assert_eq!(names, ["runtime", "delegate", "caller"]);
    }
}
