(function(){
"use strict";
var me=document.currentScript,svg=me ? me.closest("svg") : document.documentElement;
if(!svg)return;
var q=function(s){return svg.querySelector(s);};
var frames=Array.prototype.map.call(svg.querySelectorAll(".f"),function(g){
var r=g.querySelector("rect"),title=g.querySelector("title").textContent;
var at=title.lastIndexOf(" (");
return {g:g,r:r,t:g.querySelector("text"),name:title.slice(0,at),x:parseFloat(r.getAttribute("x")),w:parseFloat(r.getAttribute("width")),y:+r.getAttribute("y")};
});
var icicle=svg.classList.contains("icicle"),zoom=frames[0],shown=1e-9,ns="http://www.w3.org/2000/svg";
var above=function(a,b){return icicle ? b.y-a.y>0 : a.y-b.y>0;};
svg.removeAttribute("viewBox");svg.setAttribute("width","100%");
function px(){return svg.getBoundingClientRect().width || 1200;}
function cut(s,n){if(3>n)return "";if(n>=s.length)return s;var h=Math.ceil((n-1)/2);return s.slice(0,h)+"\u2026"+s.slice(s.length-(n-1-h));}
function draw(){
var full=px(),z=zoom,k=100/(z.w||100);
frames.forEach(function(f){
var up=above(f,z) ? (z.x+z.w/2>=f.x ? f.x+f.w>=z.x+z.w/2 : false) : false;
var inside=up ? true : (above(z,f)||f===z) ? (f.x>=z.x-shown ? z.x+z.w+shown>=f.x+f.w : false) : false;
f.g.classList.toggle("off",!inside);f.g.classList.toggle("up",up);
if(!inside)return;
var x=up ? 0 : (f.x-z.x)*k,w=up ? 100 : f.w*k;
f.r.setAttribute("x",x+"%");f.r.setAttribute("width",w+"%");
var s=cut(f.name,Math.floor((w/100*full-6)/6.65));
if(!f.t){if(!s)return;f.t=document.createElementNS(ns,"text");f.t.setAttribute("dx","3");f.t.setAttribute("y",f.y+(+svg.dataset.row)-5);f.g.appendChild(f.t);}
f.t.setAttribute("x",x+"%");f.t.textContent=s;
});
}
function go(f){zoom=f;draw();}
function find(text){
var re=null,hits=[],m=q(".m");
if(text){try{re=new RegExp(text,"i");}catch(e){re={test:function(s){return s.toLowerCase().indexOf(text.toLowerCase())>=0;}};}}
frames.forEach(function(f){var h=re ? re.test(f.name) : false;f.g.classList.toggle("hit",h);if(h)hits.push(f);});
hits.sort(function(a,b){return a.x-b.x||b.w-a.w;});
var end=-1,sum=0;
hits.forEach(function(f){if(f.x>=end-1e-6){sum+=f.w;end=f.x+f.w;}});
if(m)m.textContent=re ? "matched "+hits.length+" frames, "+sum.toFixed(2)+"%" : "";
}
svg.pctFind=find;
function ask(){var t=window.prompt("Search functions (regular expression), empty to clear","");if(t!==null)find(t);}
svg.addEventListener("click",function(e){
var c=e.target.closest(".c");
if(c){if(c.classList.contains("reset"))go(frames[0]);else ask();return;}
var g=e.target.closest(".f");if(!g)return;
if(g.localName==="a")if(svg.dataset.click==="link"||e.ctrlKey||e.metaKey)return;
e.preventDefault();
var f=frames.find(function(f){return f.g===g;});
go(f);
});
if(document.documentElement===svg)document.addEventListener("keydown",function(e){
if(e.key==="/"||(e.key==="f" ? e.ctrlKey : false)){e.preventDefault();ask();}
if(e.key==="Escape"){go(frames[0]);find("");}
});
var timer=0;window.addEventListener("resize",function(){clearTimeout(timer);timer=setTimeout(draw,60);});
draw();
})();
