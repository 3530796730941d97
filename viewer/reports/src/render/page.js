(function(){
"use strict";
var d=document,root=d.documentElement,store=null;
try{store=window.localStorage;}catch(e){store=null;}
function get(k){try{return store&&store.getItem(k);}catch(e){return null;}}
function put(k,v){try{store&&store.setItem(k,v);}catch(e){}}
/* light, dark, as the system has it */
var theme=get("pct-theme");if(theme)root.dataset.theme=theme;
var top=d.querySelector("header.top");
if(top){
var b=d.createElement("button");b.type="button";b.className="theme";
var dark=function(){return root.dataset.theme?root.dataset.theme==="dark":matchMedia("(prefers-color-scheme: dark)").matches;};
var say=function(){b.textContent=dark()?"light":"dark";b.title="switch to the "+b.textContent+" theme";};
b.addEventListener("click",function(){root.dataset.theme=dark()?"light":"dark";put("pct-theme",root.dataset.theme);say();});
say();top.appendChild(b);
}
/* display options stay open from page to page */
var options=d.querySelector("details.options");
if(options){if(get("pct-options")==="open")options.open=true;options.addEventListener("toggle",function(){put("pct-options",options.open?"open":"");});}
/* a range of time is chosen by dragging over the picture of what was spent when */
d.querySelectorAll("figure[data-link]").forEach(function(figure){
var svg=figure.querySelector("svg"),set=figure.dataset,from=+set.from,to=+set.to,start=null,mark=null;
function share(e){var box=svg.getBoundingClientRect();return Math.min(1,Math.max(0,(e.clientX-box.left)/box.width));}
function draw(at){
mark=mark||svg.appendChild(d.createElementNS("http://www.w3.org/2000/svg","rect"));
mark.setAttribute("class","chosen");mark.setAttribute("height",svg.querySelector(".slice").getAttribute("height"));
mark.setAttribute("x",100*Math.min(start,at)+"%");mark.setAttribute("width",100*Math.abs(at-start)+"%");
}
function moved(e){return start!==null&&Math.abs(share(e)-start)*svg.getBoundingClientRect().width>4;}
svg.addEventListener("pointerdown",function(e){if(e.button===0)start=share(e);});
svg.addEventListener("dragstart",function(e){e.preventDefault();});
d.addEventListener("pointermove",function(e){if(moved(e)||mark)draw(share(e));});
d.addEventListener("keydown",function(e){if(e.key==="Escape"&&mark){mark.remove();mark=start=null;}});
d.addEventListener("pointerup",function(e){
if(mark){
var digits=Math.min(9,Math.max(0,Math.ceil(-Math.log10((to-from)/svg.getBoundingClientRect().width)))),at=share(e);
function time(share){return Math.max(0,from+(to-from)*share).toFixed(digits);}
var a=time(Math.min(start,at)),b=time(Math.max(start,at));
if(a!==b)location.href=set.link.replace(set.range,a+".."+b);
}
start=null;
});
/* the click that ends a drag leads nowhere else */
svg.addEventListener("click",function(e){if(mark){e.preventDefault();mark.remove();mark=null;}},true);
});
/* flat tables: sort by head, filter */
function value(cell){
if(!cell)return "";
var t=(cell.title||cell.textContent).trim(),n=parseFloat(t.replace(/,/g,""));
return /^-?[\d.,]+(e[+-]?\d+)?( \w+)?$/.test(t)&&!isNaN(n)?n:t.toLowerCase();
}
function columnOf(th,table){
var rows=table.tHead.rows,grid=[];
for(var r=0;r<rows.length;r++){grid[r]=grid[r]||[];var c=0;
for(var i=0;i<rows[r].cells.length;i++){var cell=rows[r].cells[i];
while(grid[r][c])c++;
if(cell===th)return c;
for(var y=0;y<cell.rowSpan;y++){grid[r+y]=grid[r+y]||[];for(var x=0;x<cell.colSpan;x++)grid[r+y][c+x]=1;}}}
return -1;
}
/* what the page's own address cannot say stands behind its #: key=value, joined by & */
function remembered(key){var m=new RegExp("(?:^#|&)"+key+"=([^&]*)").exec(location.hash);return m?decodeURIComponent(m[1]):"";}
function remember(key,text){
var parts=location.hash.slice(1).split("&").filter(function(p){return p&&p.indexOf(key+"=")!==0;});
if(text)parts.push(key+"="+encodeURIComponent(text));
try{history.replaceState(null,"",parts.length?"#"+parts.join("&"):location.pathname+location.search);}catch(e){}
}
d.querySelectorAll("table[data-flat]").forEach(function(table,number){
var body=table.tBodies[0],rows=[].filter.call(body.rows,function(r){return !r.className||r.className==="sel";});
if(rows.length<2)return;
var heads=table.querySelectorAll("thead th:not(.group)"),ranked=heads[0]&&heads[0].textContent==="Rank";
function sort(th,down){
var c=columnOf(th,table);
var keyed=rows.map(function(r,i){return {r:r,k:value(r.cells[c]),i:i};});
keyed.sort(function(a,b){var o=typeof a.k===typeof b.k?(a.k<b.k?-1:a.k>b.k?1:0):typeof a.k==="number"?-1:1;return (down?-o:o)||a.i-b.i;});
var before=[].find.call(body.rows,function(r){return r.className==="sum"||r.className==="note";})||null;
keyed.forEach(function(k,i){body.insertBefore(k.r,before);if(ranked)k.r.cells[0].textContent=(i+1).toLocaleString("en-US");});
heads.forEach(function(t){t.removeAttribute("aria-sort");});
th.setAttribute("aria-sort",down?"descending":"ascending");
}
/* A head that leads to the page in its order is followed: the server's order holds for the pages beyond, too. Sorted here are
the other columns, and the column in force the other way round. */
table.tHead.addEventListener("click",function(e){
var th=e.target.closest("th");if(!th||th.classList.contains("group")||e.ctrlKey||e.metaKey||e.shiftKey)return;
var c=columnOf(th,table),now=th.getAttribute("aria-sort");
if(c<0||!now&&th.querySelector("a"))return;
e.preventDefault();
if(ranked&&c===0)return;
var down=now?now!=="descending":typeof value(rows[0].cells[c])==="number";
sort(th,down);remember("sort",number+"."+[].indexOf.call(heads,th)+(down?"d":"a"));
});
var asked=/^(\d+)\.(\d+)([da])$/.exec(remembered("sort"));
if(asked&&+asked[1]===number&&heads[+asked[2]])sort(heads[+asked[2]],asked[3]==="d");
if(rows.length<12)return;
var box=d.createElement("input");box.type="search";box.className="filter";box.placeholder="filter "+rows.length+" rows";
box.setAttribute("aria-label","filter the rows of the table");
box.addEventListener("input",function(){var t=box.value.toLowerCase();
rows.forEach(function(r){r.classList.toggle("off",t!==""&&r.textContent.toLowerCase().indexOf(t)<0);});});
table.parentNode.insertBefore(box,noteAbove(table));
});
/* Columns beyond the edge of the window are named above their table. The page has a note there already, which the style sheet
shows by a guess at the table's width; here it is known. */
function named(table,heads){
var owner=[],second=table.querySelectorAll("thead tr.second th"),parts=[];
table.querySelectorAll("thead th.group").forEach(function(g){for(var i=0;i<g.colSpan;i++)owner.push(g.textContent.trim());});
heads.forEach(function(th){
var at=[].indexOf.call(second,th),group=at<0?"":owner[at]||"",last=parts[parts.length-1],name=th.textContent.trim()||"?";
if(group&&last&&last.group===group)last.names.push(name);else parts.push({group:group,names:[name]});
});
return parts.map(function(p){var n=p.names.join(", ");return p.group?p.group+" ("+n+")":n;}).join(", ");
}
function noteAbove(table){
var p=table.previousElementSibling;
if(p&&p.classList.contains("cut"))return p;
p=d.createElement("p");p.className="cut";table.before(p);return p;
}
function sayCut(){
d.querySelectorAll("table.data").forEach(function(table){
var edge=root.clientWidth,out=[].filter.call(table.querySelectorAll("thead th:not(.group)"),function(th){
var at=th.getBoundingClientRect();return at.width>1&&at.right>edge+1;});
var p=noteAbove(table);
p.className=out.length?"cut said":"cut";
if(out.length)p.textContent="to the right, beyond the window: "+named(table,out);
});
}
var cutTimer=0;
function cutLater(){if(!cutTimer)cutTimer=requestAnimationFrame(function(){cutTimer=0;sayCut();});}
addEventListener("resize",cutLater);addEventListener("scroll",cutLater,{passive:true});sayCut();
/* keyboard */
var at=-1;
function lines(){return [].filter.call(d.querySelectorAll("main tbody tr"),function(r){return r.querySelector("a")&&r.offsetParent;});}
function select(n){var l=lines();if(!l.length)return;l.forEach(function(r){r.classList.remove("sel");});
at=Math.max(0,Math.min(l.length-1,n));l[at].classList.add("sel");l[at].scrollIntoView({block:"nearest"});}
var help=null;
function showHelp(){
if(!help){help=d.createElement("dialog");
help.innerHTML="<h2>Keys</h2><dl><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>next, previous row</dd><dt><kbd>Enter</kbd></dt><dd>open the row's page</dd><dt><kbd>u</kbd></dt><dd>up: the caller, or the page above</dd><dt><kbd>/</kbd></dt><dd>search procedures, modules, file:line</dd><dt><kbd>m</kbd></dt><dd>menu</dd><dt><kbd>o</kbd></dt><dd>display options</dd><dt><kbd>?</kbd></dt><dd>this help; Esc closes</dd></dl>";
d.body.appendChild(help);}
if(!help.open)help.showModal();
}
d.addEventListener("keydown",function(e){
if(e.ctrlKey||e.metaKey||e.altKey||/^(input|textarea|select)$/i.test(e.target.tagName)){if(e.key==="Escape")e.target.blur();return;}
var k=e.key,a;
if(k==="j")select(at+1);
else if(k==="k")select(at-1);
else if(k==="Enter"){var s=d.querySelector("tr.sel a:not(.src)")||d.querySelector("tr.sel a");if(!s||e.target.tagName==="A"||e.target.tagName==="BUTTON"||e.target.tagName==="SUMMARY")return;s.click();}
else if(k==="u"){a=d.getElementById("up");if(a)a.click();}
else if(k==="m"){a=d.querySelector("a.brand");if(a)a.click();}
else if(k==="o"){if(options)options.open=!options.open;}
else if(k==="/"){a=d.getElementById("search");if(a){a.focus();a.select();}}
else if(k==="?")showHelp();
else return;
e.preventDefault();
});
})();
