//! What nodes and rows stand for, and which frames are merged into one.

use crate::model::{Frame, FrameId, FunctionId, IdVec, ObjectId, ObjectKind, ProcessId, Profile, ThreadId};
use rustc_hash::FxHashMap;

/// What makes two frames one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum By {
    /// The same function.
    #[default]
    Function,
    /// The same function, file and line.
    Line,
    /// The same address.
    Pc,
    /// The same cause for which the thread did not run; all running is one.
    Cause,
    /// The same object.
    Object,
}

/// What a row or node stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Label {
    /// Everything in a process.
    Process(ProcessId),
    /// Everything in a thread.
    Thread(ThreadId),
    /// Everything in processes of one name: the first of them.
    Command(ProcessId),
    /// Everything in threads of one name: the first of them.
    ThreadName(ThreadId),
    /// A function.
    Function(FunctionId),
    /// A line: the first of the frames that were merged.
    Place(FrameId),
    /// An address: the same.
    Address(FrameId),
    /// An object.
    Object(ObjectId),
    /// All code that ran.
    Running,
}

/// Words for a label.
impl Label {
    /// The name that tables show.
    #[must_use]
    pub fn name(self, profile: &Profile) -> String {
        match self {
            Self::Process(id) => {
                let process = &profile.processes[id];
                match process.stands_for {
                    0 => format!("{} ({})", process.name, process.pid),
                    1 => process.name.clone(),
                    n => format!("{} ({n} processes)", process.name),
                }
            }
            Self::Thread(id) => {
                let thread = &profile.threads[id];
                let name = if thread.name.is_empty() { "thread" } else { &thread.name };
                if thread.tid == 0 { name.to_owned() } else { format!("{name} ({})", thread.tid) }
            }
            Self::Command(id) => profile.processes[id].name.clone(),
            Self::ThreadName(id) => profile.threads[id].name.clone(),
            Self::Function(id) => profile.functions[id].name.clone(),
            Self::Place(id) => place_name(profile, &profile.frames[id], false),
            Self::Address(id) => place_name(profile, &profile.frames[id], true),
            Self::Object(id) => profile.objects[id].name().to_owned(),
            Self::Running => "running".to_owned(),
        }
    }
    /// Compares the names of two labels as [`Label::name`] gives them. Lists are ranked by names where numbers are
    /// equal, which is often so, and then no name is made for it.
    #[must_use]
    pub fn cmp_names(self, other: Label, profile: &Profile) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Function(a), Self::Function(b)) => {
                profile.functions[a].name.cmp(&profile.functions[b].name)
            }
            _ => self.name(profile).cmp(&other.name(profile)),
        }
    }
    /// The object that it lies in, if it is a place in code.
    #[must_use]
    pub fn object(self, profile: &Profile) -> Option<ObjectId> {
        match self {
            Self::Process(_) | Self::Thread(_) | Self::Command(_) | Self::ThreadName(_) | Self::Running => {
                None
            }
            Self::Function(id) => Some(profile.functions[id].object),
            Self::Place(id) | Self::Address(id) => {
                Some(profile.functions[profile.frames[id].function].object)
            }
            Self::Object(id) => Some(id),
        }
    }
    /// What the column of objects shows: its object; of a function of a module also the line.
    #[must_use]
    pub fn whereabouts(self, profile: &Profile) -> Option<String> {
        let object = &profile.objects[self.object(profile)?];
        let line = match (self, object.kind) {
            (Self::Function(id), ObjectKind::Module(_)) => profile.functions[id].declared,
            _ => None,
        };
        Some(match line {
            Some((_, line)) => format!("{}:{line}", object.name()),
            None => object.name().to_owned(),
        })
    }
    /// The function, if it is one or a place in one.
    #[must_use]
    pub fn function(self, profile: &Profile) -> Option<FunctionId> {
        match self {
            Self::Function(id) => Some(id),
            Self::Place(id) | Self::Address(id) => Some(profile.frames[id].function),
            _ => None,
        }
    }
}

fn place_name(profile: &Profile, frame: &Frame, with_address: bool) -> String {
    let mut name = profile.functions[frame.function].name.clone();
    let place = profile.place_of(frame);
    if let Some(address) = frame.address.filter(|_| with_address || place.is_none()) {
        name += &format!(" 0x{address:x}");
    }
    if let Some(place) = place {
        name += &format!(" {place}");
    }
    name
}

/// Frame to label, decided once for all frames.
pub(crate) struct Labels {
    of_frame: IdVec<FrameId, Label>,
}

impl Labels {
    pub(crate) fn from_profile(profile: &Profile, by: By) -> Self {
        let mut first: FxHashMap<Frame, FrameId> = FxHashMap::default();
        let mut of_frame = IdVec::new();
        for (id, frame) in profile.frames.enumerate() {
            of_frame.push(match by {
                By::Function => Label::Function(frame.function),
                By::Object => Label::Object(profile.functions[frame.function].object),
                By::Cause if profile.is_blocked(frame.function) => Label::Function(frame.function),
                By::Cause => Label::Running,
                By::Line => {
                    let address = if frame.file.is_none() { frame.address } else { None };
                    let key = Frame { address, inlined: false, ..*frame };
                    Label::Place(*first.entry(key).or_insert(id))
                }
                By::Pc => {
                    let key = Frame { inlined: false, ..*frame };
                    Label::Address(*first.entry(key).or_insert(id))
                }
            });
        }
        Self { of_frame }
    }
    pub(crate) fn of_frame(&self, frame: FrameId) -> Label {
        self.of_frame[frame]
    }
}
