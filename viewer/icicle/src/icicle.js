(function(){
"use strict";
var me=document.currentScript,svg=me ? me.closest("svg") : document.documentElement;
if(!svg)return;
var q=function(s){return svg.querySelector(s);};
/* a title without what its last brackets have, which may have brackets of their own */
function named(title){
for(var depth=0,i=title.length-1;i>0;i--){
if(title[i]===")")depth++;
else if(title[i]==="("){depth--;if(!depth)return title.slice(0,i-1);}}
return title;}
var shorts=Object.create(null);
var frames=Array.prototype.map.call(svg.querySelectorAll(".f"),function(g){
var r=g.querySelector("rect"),title=g.querySelector("title").textContent;
var name=named(title);
shorts[name]=shorts[name]||g.getAttribute("data-short")||name;
return {g:g,r:r,t:g.querySelector("text"),name:name,x:parseFloat(r.getAttribute("x")),w:parseFloat(r.getAttribute("width")),y:+r.getAttribute("y")};
});
var icicle=svg.classList.contains("icicle"),all={x:0,w:100,y:frames[0].y},zoom=all,shown=1e-9,ns="http://www.w3.org/2000/svg";
var above=function(a,b){return icicle ? b.y-a.y>0 : a.y-b.y>0;};
svg.removeAttribute("viewBox");svg.setAttribute("width","100%");
function px(){return svg.getBoundingClientRect().width || 1200;}
/* as bare_name() in pct-text: brackets that stay are hidden until the others are gone */
function bare(s){
var signs="\u003c>() ",hide=function(m){return m.replace(/[\u003c>() ]/g,function(c){return String.fromCharCode(0xe000+signs.indexOf(c));});};
var t=s.replace(/\boperator(\(\)|\u003c=>|\u003c\u003c=?|>>=?|[\u003c>]=?|->\*?|[-+*\/%^\u0026|~!=,]+)( (?=\u003c))?|[-=]>|'[\u003c>()]'/g,function(m){return hide(m)+(m[0]==="o" ? "\ue005" : "");}),old="";
while(old!==t){old=t;t=t.replace(/\u003c[^\u003c>()]*>|\([^\u003c>()]*\)/g,function(m,at,all){
var front=all.slice(Math.max(0,at-2),at),part=/^.(impl |lambda|unnamed|anonymous)/.test(m);
var gone=m[0]==="(" ? /[\w$\]>)'\u0080-\uffff]$/.test(front) : /[\w$\]\u0080-\uffff]$/.test(front)||(front==="::" ? !part : false);
return gone ? "" : hide(m);});}
if(/[\u003c>()]/.test(t))return s;
return t.replace(/[\ue000-\ue005]/g,function(c){return signs.charAt(c.charCodeAt(0)-0xe000);}).trimEnd();
}
/* as label() in text.rs: the last name says most, the end of an address all, a few letters nothing */
function cut(s,n){if(3>n)return "";if(n>=s.length)return s;
var t=bare(s);
if(t)if(n>=t.length)return t;
if(6>n)return "";
if(t){
for(var at=t.indexOf("::");at>=0;at=t.indexOf("::",at+2)){if(n>t.length-at-2)return "\u2026"+t.slice(at+2);}
t=t.slice(t.lastIndexOf("::")>=0 ? t.lastIndexOf("::")+2 : 0);
var plus=t.lastIndexOf("+0x");
if(plus>=0)if(n>t.length-plus)return "\u2026"+t.slice(plus);
s=t;}
var h=Math.ceil((n-1)/2);return s.slice(0,h)+"\u2026"+s.slice(s.length-(n-1-h));}
/* What stands around the frames, for this width: the head is cut before the search box, the legend has as many rows as
it needs, and what was found stands below what was left out where both have no room in one line. */
var head=[[q(".h"),8.6,q(".ask") ? 215 : 20],[q(".sub"),6.7,20],[q(".n"),6.7,20]].filter(function(h){return h[0];}).map(function(h){return {t:h[0],px:h[1],beside:h[2],s:h[0].textContent};});
var keys=Array.prototype.slice.call(svg.querySelectorAll(".k")),left=q(".n"),found=q(".m");
var height=+svg.getAttribute("height"),first=keys.length ? +/ ([\d.]+)/.exec(keys[0].getAttribute("transform"))[1] : 0,foot=left ? +left.getAttribute("y") : 0;
var rows=keys.length ? Math.round((foot-first-11)/18) : 0;
var reset=q(".reset");
function frame(full){
if(reset)reset.style.display=zoom===all ? "none" : "";
head.forEach(function(h){var n=Math.floor((full-h.beside-(h.beside>20 ? (zoom===all ? 0 : 90) : 0))/h.px);h.t.textContent=n>=h.s.length ? h.s : 2>n ? "" : h.s.slice(0,n-1)+"\u2026";});
var x=0,row=0;
keys.forEach(function(k){
var room=+k.dataset.room;
if(x>0)if(x+room>full-20){row++;x=0;}
k.setAttribute("transform","translate("+(x+10)+" "+(first+18*row)+")");x+=room;
});
if(!left)return;
var more=keys.length ? 18*(row+1-rows) : 0,two=500>full ? (left.textContent ? 16 : 0) : 0;
left.setAttribute("y",foot+more);found.setAttribute("y",foot+more+two);
svg.setAttribute("height",height+more+two);
}
function draw(){
var full=px(),z=zoom,k=100/(z.w||100);
frame(full);
frames.forEach(function(f){
var up=above(f,z) ? (z.x+z.w/2>=f.x ? f.x+f.w>=z.x+z.w/2 : false) : false;
var inside=up ? true : (above(z,f)||f===z||z===all) ? (f.x>=z.x-shown ? z.x+z.w+shown>=f.x+f.w : false) : false;
f.g.classList.toggle("off",!inside);f.g.classList.toggle("up",up);
if(!inside)return;
var x=up ? 0 : (f.x-z.x)*k,w=up ? 100 : f.w*k;
f.r.setAttribute("x",x+"%");f.r.setAttribute("width",w+"%");
var s=cut(shorts[f.name],Math.floor((w/100*full-6)/6.65));
if(!f.t){if(!s)return;f.t=document.createElementNS(ns,"text");f.t.setAttribute("dx","3");f.t.setAttribute("y",f.y+(+svg.dataset.row)-5);f.g.appendChild(f.t);}
f.t.setAttribute("x",x+"%");f.t.textContent=s;
});
}
/* Zoom and search stand behind the # of the address, for pictures with a search box. */
var box=q(".ask input");
function remembered(key){var m=new RegExp("[#\u0026]"+key+"=([^\u0026]*)").exec(location.hash);return m ? decodeURIComponent(m[1]) : "";}
function remember(key,text){
if(!box)return;
var parts=location.hash.slice(1).split("\u0026").filter(function(p){return p ? p.indexOf(key+"=")!==0 : false;});
if(text)parts.push(key+"="+encodeURIComponent(text));
try{history.replaceState(null,"","#"+parts.join("\u0026"));}catch(e){}
}
function go(f){zoom=f===frames[0] ? all : f;draw();remember("zoom",zoom===all ? "" : frames.indexOf(f)+"."+f.name);}
function find(text){
var re=null,hits=[],m=q(".m");
if(text){try{re=new RegExp(text,"i");}catch(e){re={test:function(s){return s.toLowerCase().indexOf(text.toLowerCase())>=0;}};}}
frames.forEach(function(f){var h=re ? re.test(f.name) : false;f.g.classList.toggle("hit",h);if(h)hits.push(f);});
hits.sort(function(a,b){return a.x-b.x||b.w-a.w;});
var end=-1,sum=0;
hits.forEach(function(f){if(f.x>=end-1e-6){sum+=f.w;end=f.x+f.w;}});
remember("find",text);
if(m)m.textContent=re ? "matched "+hits.length+" frames, "+sum.toFixed(2)+"%" : "";
}
svg.pctFind=find;
if(box){
box.addEventListener("input",function(){find(box.value);});
box.addEventListener("keydown",function(e){if(e.key==="Escape"){box.value="";find("");box.blur();}e.stopPropagation();});
}
svg.addEventListener("click",function(e){
if(e.target.closest(".reset")){go(frames[0]);return;}
var g=e.target.closest(".f");if(!g)return;
if(g.localName==="a")if(svg.dataset.click==="link"||e.ctrlKey||e.metaKey)return;
e.preventDefault();
var f=frames.find(function(f){return f.g===g;});
go(f);
});
if(document.documentElement===svg)document.addEventListener("keydown",function(e){
if(e.key==="/"||(e.key==="f" ? e.ctrlKey : false))if(box){e.preventDefault();box.focus();box.select();}
if(e.key==="Escape"){go(frames[0]);find("");if(box)box.value="";}
});
var timer=0;window.addEventListener("resize",function(){clearTimeout(timer);timer=setTimeout(draw,60);});
if(box){
var asked=remembered("find"),where=/^(\d+)\.(.*)$/.exec(remembered("zoom"));
if(asked){box.value=asked;find(asked);}
if(where){var same=function(f){return f.name===where[2];},f=frames[+where[1]];zoom=(f ? same(f) : false) ? f : frames.find(same)||all;}
}
draw();
})();
