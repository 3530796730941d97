//! The symbolizer's answers about system calls: which code it reads, and what it remembers of it.

use std::collections::HashMap;

use iced_x86::Mnemonic;

use crate::image::Image;
use crate::objects::{CodeAddr, ObjectId};
use crate::open::code_of;
use crate::symbolizer::Symbolizer;
use crate::system_call::{CallSite, Code, MOST_CALLERS, RAX, Said, Value, leads_to};

impl Symbolizer {
    /// Reads the code where threads were in system calls, so that [`Symbolizer::system_call`] has answers. Each item is
    /// an address after `syscall` and its callers, outwards (a few are enough). Call this after [`Symbolizer::resolve`]
    /// has resolved all of them.
    pub fn find_system_calls<'s>(&mut self, places: impl IntoIterator<Item = &'s [CallSite]>) {
        let mut images = HashMap::new();
        for sites in places {
            let (mut callee, mut register) = (None, RAX);
            for site in sites.iter().take(1 + MOST_CALLERS) {
                let said = match self.said(*site) {
                    Some(said) => said,
                    None => {
                        let value = self.read(&mut images, *site, callee, register).unwrap_or(Value::Unknown);
                        let said = Said { register, value };
                        self.say(*site, said);
                        said
                    }
                };
                let Value::Entry(next) = said.value else { break };
                (callee, register) = (Some(*site), next);
            }
        }
    }

    /// The number of the system call before the first address; the others are its callers, outwards. `None`: it is
    /// unknown, or [`Symbolizer::find_system_calls`] was not asked.
    #[must_use]
    pub fn system_call(&self, sites: &[CallSite]) -> Option<u32> {
        let mut register = RAX;
        for site in sites.iter().take(1 + MOST_CALLERS) {
            match self.said(*site).filter(|said| said.register == register)?.value {
                Value::Unknown => return None,
                Value::Number(number) => return Some(number),
                Value::Entry(next) => register = next,
            }
        }
        None
    }

    /// File offset of the start of the function that contains an address.
    fn start_of(&self, site: CallSite) -> Option<u64> {
        site.address.lookup().checked_sub(self.offset_in_function(site.object, site.address)?)
    }

    /// The value of a register at the last instruction before `site`, if that is `syscall` or calls the function of
    /// `callee`.
    fn read(
        &self,
        images: &mut HashMap<ObjectId, Option<Image>>,
        site: CallSite,
        callee: Option<CallSite>,
        register: u8,
    ) -> Option<Value> {
        let start = self.start_of(site)?;
        let image =
            images.entry(site.object).or_insert_with(|| code_of(self.object(site.object))).as_ref()?;
        let offset = match site.address {
            CodeAddr::Pc(offset) | CodeAddr::Return(offset) => offset,
        };
        let (registers, last) = Code::before_offset(image, start, offset)?.run()?;
        let fits = match callee {
            None => last.mnemonic() == Mnemonic::Syscall,
            Some(callee) => {
                let name =
                    self.frames(callee.object, callee.address).last().map(|f| self.text(f.function))?;
                let here = (callee.object == site.object).then(|| self.start_of(callee)).flatten();
                leads_to(image, &last, here, name)
            }
        };
        fits.then(|| registers[usize::from(register)])
    }
}
